"""Export the models that people have to ONNX: torchvision 0.11.3 and small nets of torch 1.10.2, opset 9 and 11.

Run with an interpreter that has torch and torchvision: `python exports.py DIRECTORY [PATTERN]`.  Weights are seeded,
and BatchNorm statistics are what random data gives, so that values stay of a sane size through deep nets.  Each export
is `NAME-opN.onnx` with its input beside it in `NAME.npz`; what cannot be exported is in `NAME-opN.error`.
"""

import os
import sys
import warnings

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

OPSETS = (9, 11)
CLASSIFIERS = {
    "alexnet": 224,
    "vgg11_bn": 224,
    "vgg16": 224,
    "resnet18": 224,
    "resnet50": 224,
    "resnext50_32x4d": 224,
    "densenet121": 224,
    "googlenet": 224,
    "inception_v3": 299,
    "squeezenet1_0": 224,
    "squeezenet1_1": 224,
    "mobilenet_v2": 224,
    "mobilenet_v3_small": 224,
    "mnasnet0_5": 224,
    "mnasnet1_0": 224,
    "shufflenet_v2_x0_5": 224,
    "shufflenet_v2_x1_0": 224,
    "efficientnet_b0": 224,
    "regnet_x_400mf": 224,
    "regnet_y_400mf": 224,
}
SEGMENTERS = ("deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large", "deeplabv3_resnet50", "fcn_resnet50")


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(torch.tanh(self.conv1(x)), 2)
        x = torch.flatten(F.avg_pool2d(torch.tanh(self.conv2(x)), 2), 1)
        return F.log_softmax(self.fc3(torch.tanh(self.fc2(torch.tanh(self.fc1(x))))), dim=1)


class Espcn(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 5, padding=2), nn.Tanh(), nn.Conv2d(16, 9, 3, padding=1), nn.PixelShuffle(3)
        )

    def forward(self, x):
        return self.body(x)


def _double(a, b):
    return nn.Sequential(
        nn.Conv2d(a, b, 3, padding=1),
        nn.BatchNorm2d(b),
        nn.ReLU(inplace=True),
        nn.Conv2d(b, b, 3, padding=1),
        nn.BatchNorm2d(b),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, bilinear):
        super().__init__()
        self.down1, self.down2, self.bottom = _double(3, 8), _double(8, 16), _double(16, 16)
        self.bilinear = bilinear
        self.up2 = None if bilinear else nn.ConvTranspose2d(16, 16, 2, stride=2)
        self.up1 = None if bilinear else nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.merge2, self.merge1, self.out = _double(32, 8), _double(16, 8), nn.Conv2d(8, 2, 1)

    def _up(self, x, layer):
        if self.bilinear:
            return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)
        return layer(x)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        y = self._up(self.bottom(F.max_pool2d(b, 2)), self.up2)
        y = self.merge2(torch.cat([y, b], 1))
        y = self.merge1(torch.cat([self._up(y, self.up1), a], 1))
        return self.out(y)


class Style(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Conv2d(3, 8, 9), nn.Conv2d(8, 16, 3, stride=2)])
        self.norms = nn.ModuleList([nn.InstanceNorm2d(8, affine=True), nn.InstanceNorm2d(16, affine=True)])
        self.res, self.up, self.out = nn.Conv2d(16, 16, 3), nn.Conv2d(16, 8, 3), nn.Conv2d(8, 3, 9)

    def forward(self, x):
        y = F.relu(self.norms[0](self.down[0](F.pad(x, (4, 4, 4, 4), mode="reflect"))))
        y = F.relu(self.norms[1](self.down[1](F.pad(y, (1, 1, 1, 1), mode="reflect"))))
        y = y + self.res(F.pad(y, (1, 1, 1, 1), mode="reflect"))
        y = self.up(F.pad(F.interpolate(y, scale_factor=2, mode="nearest"), (1, 1, 1, 1), mode="reflect"))
        return self.out(F.pad(F.relu(y), (4, 4, 4, 4), mode="reflect"))


class ManyInOut(nn.Module):
    def __init__(self):
        super().__init__()
        self.image, self.table = nn.Conv2d(3, 4, 3), nn.Linear(6, 4)

    def forward(self, image, table):
        a = self.image(image).mean(dim=(2, 3))
        b = self.table(table)
        return a + b, torch.sigmoid(a), torch.cat([a, b], dim=1).max(dim=1)[0]


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.net = getattr(nn, kind)(5, 7, **options)

    def forward(self, x):
        return self.net(x)[0]


class EmbeddingLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.lstm, self.out = nn.Embedding(20, 8), nn.LSTM(8, 12), nn.Linear(12, 3)

    def forward(self, words):
        return self.out(self.lstm(self.words(words))[0][-1])


class Attention(nn.Module):
    def __init__(self, width=16, heads=4):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width))

    def forward(self, x):
        n, t, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(n, t, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        scores = torch.softmax(q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5, dim=-1)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(n, t, width))
        return x + self.mlp(self.norm2(x))


def _image(size, channels=3, batch=1):
    return (torch.randn(batch, channels, size, size),)


SMALL = {
    "lenet5": (LeNet, lambda: _image(28, 1, 2)),
    "espcn": (Espcn, lambda: _image(16, 1)),
    "unet_transposed": (lambda: UNet(False), lambda: _image(32)),
    "unet_bilinear": (lambda: UNet(True), lambda: _image(32)),
    "style_transfer": (Style, lambda: _image(32)),
    "many_in_out": (ManyInOut, lambda: (torch.randn(2, 3, 8, 8), torch.randn(2, 6))),
    "rnn": (lambda: Recurrent("RNN"), lambda: (torch.randn(6, 2, 5),)),
    "gru": (lambda: Recurrent("GRU"), lambda: (torch.randn(6, 2, 5),)),
    "lstm": (lambda: Recurrent("LSTM"), lambda: (torch.randn(6, 2, 5),)),
    "gru_bidirectional": (lambda: Recurrent("GRU", bidirectional=True), lambda: (torch.randn(6, 2, 5),)),
    "lstm_bidirectional": (lambda: Recurrent("LSTM", bidirectional=True), lambda: (torch.randn(6, 2, 5),)),
    "lstm_two_layers": (lambda: Recurrent("LSTM", num_layers=2, batch_first=True), lambda: (torch.randn(2, 6, 5),)),
    "embedding_lstm": (EmbeddingLstm, lambda: (torch.randint(0, 20, (6, 2)),)),
    "attention": (Attention, lambda: (torch.randn(2, 5, 16),)),
}


class FirstOutput(nn.Module):
    """A segmentation net that gives its main map alone."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        return self.net(x)["out"]


def _torchvision(name):
    import torchvision

    if name == "ssdlite320_mobilenet_v3_large":
        return torchvision.models.detection.ssdlite320_mobilenet_v3_large(
            pretrained=False, pretrained_backbone=False
        ), _image(320)
    if name in SEGMENTERS:
        maker = getattr(torchvision.models.segmentation, name)
        return FirstOutput(
            maker(pretrained=False, pretrained_backbone=False, aux_loss=False)
            if "lraspp" not in name
            else maker(pretrained=False, pretrained_backbone=False)
        ), _image(128)
    options = {"init_weights": True, "transform_input": False} if name in ("googlenet", "inception_v3") else {}
    return getattr(torchvision.models, name)(pretrained=False, **options), _image(CLASSIFIERS[name])


def build(name):
    """The seeded net called `name`, in inference, and its example inputs."""
    torch.manual_seed(sum(map(ord, name)))
    if name in SMALL:
        maker, example = SMALL[name]
        net, inputs = maker(), example()
    else:
        net, inputs = _torchvision(name)
    _settle(net, name, inputs)
    return net.eval(), inputs


def _settle(net, name, inputs):
    """Let BatchNorm see the example a few times, so that its statistics fit the weights."""
    if not any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in net.modules()) or "ssdlite" in name:
        return
    for module in net.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.momentum = 0.5
            module.train()
    with torch.no_grad():
        batch = tuple(torch.cat([i, i.flip(-1) + 0.1 * torch.randn_like(i)]) for i in inputs)
        for _ in range(4):
            net.train()
            for m in net.modules():
                if isinstance(m, nn.Dropout):
                    m.eval()
            net(*batch)


def export(name, opset, folder):
    """Write `name` at `opset`, or the reason why it cannot be."""
    path = os.path.join(folder, "%s-op%d" % (name, opset))
    net, inputs = build(name)
    names = ["input%d" % i for i in range(len(inputs))]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(net, inputs, path + ".onnx", opset_version=opset, input_names=names)
    except Exception as error:  # opset 9 has no form for some operators
        if os.path.exists(path + ".onnx"):
            os.remove(path + ".onnx")
        with open(path + ".error", "w") as out:
            out.write(str(error).splitlines()[0])
        return
    np.savez(os.path.join(folder, name + ".npz"), **{n: i.numpy() for n, i in zip(names, inputs)})


def names():
    """Every model, small ones first."""
    return list(SMALL) + list(CLASSIFIERS) + list(SEGMENTERS) + ["ssdlite320_mobilenet_v3_large"]


def main(folder, pattern=""):
    os.makedirs(folder, exist_ok=True)
    torch.set_num_threads(1)
    for name in names():
        for opset in OPSETS:
            path = os.path.join(folder, "%s-op%d" % (name, opset))
            if pattern in name and not (os.path.exists(path + ".onnx") or os.path.exists(path + ".error")):
                export(name, opset, folder)
                print(name, opset, "ok" if os.path.exists(path + ".onnx") else "not exported", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
