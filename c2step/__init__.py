"""c2step: the stepping debugger for Caffe2."""
