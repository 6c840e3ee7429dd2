from transformers import AutoModelForCausalLM, BitsAndBytesConfig

quantised = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_storage="bfloat16")
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", quantization_config=quantised)
