import os
import unittest

import torch
from training import train


class Tests(unittest.TestCase):
    def test_training(self):
        model, _ = train(5)
        self.assertEqual(len(list(model.parameters())), 4)

    def test_warns(self):
        with self.assertWarns(FutureWarning):
            torch.nn.utils.clip_grad_norm([torch.ones(1, requires_grad=True)], 1.0)

    def test_fails(self):
        train(3, each=lambda step, loss: self.assertGreater(step, 0))


train()
result = unittest.TextTestRunner(stream=open(os.devnull, "w")).run(
    unittest.defaultTestLoader.loadTestsFromTestCase(Tests)
)
print(result.testsRun, [text for _, text in result.failures], result.errors)
