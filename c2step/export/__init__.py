"""What a capture or a blame says, in the files of other tools: ONNX viewers, TensorBoard, tables, archives."""
