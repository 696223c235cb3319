"""Repaired imports of the cases: right on Caffe2, or said before the run; and nets for a bare script, old ones too."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import c2step
import oracle
from c2step.compare.blame import blame
from c2step.compare.loading import make_reference
from c2step.compare.verdict import Verdict

CASES = [
    "01_upsample_linear_to_nearest", "03_pool_ceil_mode_dropped", "04_auto_pad_same_dropped",
    "05_slice10_inputs_ignored", "07_softmax13_axis", "08_logsoftmax_minus_inf", "10_topk11_smallest_ignored",
    "11_max_broadcast_heap_read", "14_birnn_output_layout", "16_scatter_default_axis", "19_if_output_never_written",
    "20_loop_outer_value", "22_constant_dtype_widened", "33_init_net_not_split", "34_ir4_initializers_not_inputs",
    "35_lstm_ir4_shape_inference", "37_resize_in_the_middle", "39_schema_rejects_new_inputs",
    "40_conv_without_kernel_shape", "65_external_data_weights",
]  # fmt: skip


def judged(folder, tmp_path):
    inputs = [os.path.join(folder, "inputs.npz")]
    with c2step.open(os.path.join(folder, "model.onnx"), inputs, importing="repaired") as session:
        found = blame(session, make_reference(session, "onnxruntime", str(tmp_path / "reference")))
        return found, session.model.findings


@pytest.mark.parametrize("case", CASES)
def test_repaired_and_right(shared, tmp_path, case):
    found, _ = judged(os.path.join(shared, "cases", case), tmp_path)
    assert (found.verdict, found.origins) == (Verdict.PASS, [])


@pytest.mark.parametrize(
    ("case", "codes"),
    [("18_custom_domain_taken_as_onnx", {"private-domain"}), ("21_nan_in_pooling", {"maxpool-nan", "reduce-nan"})],
)
def test_what_caffe2_cannot_express_is_linted(shared, tmp_path, case, codes):
    found, findings = judged(os.path.join(shared, "cases", case), tmp_path)
    said = {finding["index"]: finding["code"] for finding in findings}
    assert set(said.values()) & codes
    assert all(judged.operator.node.index in said for judged in found.origins)


def run_bare(python, nets, inputs, folder):
    out = os.path.join(str(folder), "bare.npz")
    words = [python, "-W", "ignore", "-c", oracle.SCRIPT, nets[0], nets[1], inputs, out, "1"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=str(folder))
    with open(out + ".json") as file:
        keys = json.load(file)
    with np.load(out) as archive:
        return {name: archive[key] for key, name in keys.items()}


@pytest.mark.parametrize("name", ["digits_ceil", "digits_lstm", "digits_cnn"])
def test_repaired_nets_run_in_bare_scripts_old_and_new(models, older_caffe2, tmp_path, name):
    folder = os.path.join(models, name)
    with c2step.open(folder + "/model.onnx", [folder + "/input.npz"], importing="repaired") as session:
        nets = session.workspace.convert(str(tmp_path / "nets"))
    for python in (sys.executable, older_caffe2):
        found = run_bare(python, nets, folder + "/input.npz", tmp_path)
        for blob, value in np.load(folder + "/expected.npz").items():
            np.testing.assert_allclose(found[blob], value, rtol=1e-3, atol=1e-5)
