"""Ranks that contradict each other, and strangers at the port: what was seen, and what to do."""

import socket
import threading

import pytest
from preflight_agent import ENDED_WITH
from preflight_ranks import examine, free_port

SHORT = {"limits": {"arrive": 3.0}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("own", "seen", "said"),
    [
        ({"world": 4}, "it is rank 1 of 4, and rank 0 has a world size of 2", "give every rank the same"),
        ({"version": "9.9.9"}, "it runs gpudoctor 9.9.9", "install one version on every node"),
        ({"token": "other"}, "belongs to another job", "different ports by --port"),
    ],
)
def test_a_rank_that_does_not_fit_is_refused_with_a_sentence(own, seen, said):
    limits = SHORT if "token" in own else {"limits": {"arrive": 20.0}}  # a stranger makes up for no rank
    ended = examine({0: {}, 1: own}, {"world": 2, **limits}, within=60)
    assert ended.codes == {0: ENDED_WITH, 1: 3}
    assert said in ended.errors[1] and "rank 0 refused rank 1" in ended.errors[1]
    refused = [loss for loss in ended.found["losses"] if loss["kind"] == "refused"]
    assert len(refused) == 1 and seen in refused[0]["words"]


def test_a_stranger_at_the_port_is_not_a_rank():
    port = free_port()
    done = threading.Event()

    def knock():
        while not done.wait(0.05):
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=1) as stream:
                    stream.sendall(b"GET / HTTP/1.0\r\n\r\n")
                    stream.recv(100)
                return
            except OSError:
                continue

    thread = threading.Thread(target=knock)
    thread.start()
    try:
        ended = examine({0: {}}, {"world": 2, "port": port, "limits": {"arrive": 2.0}}, within=60)
    finally:
        done.set()
        thread.join()
    [loss] = ended.found["losses"]
    assert loss["kind"] == "never came" and "127.0.0.1 connected and sent a line that is not JSON" in loss["words"]


def test_a_port_that_another_program_has_is_a_sentence_of_rank_0():
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        ended = examine({0: {}}, {"world": 2, "port": port}, within=60)
    assert ended.codes == {0: 3}
    assert f"rank 0 cannot listen at port {port}" in ended.errors[0] and "--port" in ended.errors[0]
