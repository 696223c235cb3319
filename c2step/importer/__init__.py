"""From a file to nets: ONNX or NetDef, through Caffe2's own backend, with lint and repairs."""
