"""The far side of the pipe: what runs in the interpreter that has onnxruntime, onnx or PyTorch.

Nothing on the near side imports this package.  An engine is started by `references.engine`, which
hands it these files whatever the other interpreter has installed.
"""
