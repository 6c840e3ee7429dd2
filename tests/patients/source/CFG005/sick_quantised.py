import torch
import transformers


def config():
    return transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_type=torch.bfloat16)
