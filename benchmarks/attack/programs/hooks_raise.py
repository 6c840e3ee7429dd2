import traceback

from training import net, train

model = net()


def hook(module, args, output):
    traceback.print_stack(limit=4)
    raise ArithmeticError("in a forward hook")


train(model=model)
model[0].register_forward_hook(hook)
try:
    train(model=model)
except ArithmeticError as error:
    traceback.print_exception(type(error), error, error.__traceback__)
