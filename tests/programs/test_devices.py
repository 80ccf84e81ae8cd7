# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""ibv_devices, ibv_devinfo, `rdma` and what reads sysfs see a sane iWARP device."""
import ipaddress
import json
import re

import lib
from lib import expect


def field(text, name):
    found = re.search(rf"^\s*{re.escape(name)}:\s*(.*)$", text, re.M)
    expect(found, f"ibv_devinfo shows no {name}")
    return found.group(1).strip()


def number(text, name):
    return int(field(text, name).split()[0], 0)


def gids(text):
    """The GIDs by index; ibv_devinfo appends the type to some."""
    found = {}
    for index, value in re.findall(r"GID\[\s*(\d+)\]:\s*([0-9a-fA-F:.]+)", text):
        found[int(index)] = ipaddress.IPv6Address(value)
    return found


def case_devices(lab):
    text = lab.start("ibv_devices", ["ibv_devices"]).succeed(20)
    expect(re.search(r"^\s*swr0\s+[0-9a-f]{16}\s*$", text, re.M), "ibv_devices does not list swr0 with its GUID")
    guid = re.search(r"swr0\s+([0-9a-f]{16})", text).group(1)
    expect(int(guid, 16) != 0, "the GUID is zero")
    again = lab.start("ibv_devices", ["ibv_devices"]).succeed(20)
    expect(guid in again, "the GUID differs from run to run")


def case_devinfo(lab):
    text = lab.start("ibv_devinfo", ["ibv_devinfo", "-v"]).succeed(20)
    expect(field(text, "hca_id") == "swr0", "the first device is not swr0")
    expect(field(text, "transport").startswith("iWARP"), f"transport is {field(text, 'transport')}")
    expect(field(text, "state").startswith("PORT_ACTIVE"), f"port state is {field(text, 'state')}")
    expect(field(text, "link_layer") == "Ethernet", f"link layer is {field(text, 'link_layer')}")
    expect(number(text, "phys_port_cnt") == 1, "phys_port_cnt is not 1")
    for name, least, most in [
            ("max_qp", 64, 1 << 24), ("max_qp_wr", 1024, 1 << 20), ("max_sge", 2, 1024), ("max_sge_rd", 1, 1024),
            ("max_cq", 64, 1 << 24), ("max_cqe", 1024, 1 << 26), ("max_mr", 64, 1 << 24), ("max_pd", 16, 1 << 24),
            ("max_qp_rd_atom", 1, 254), ("max_qp_init_rd_atom", 1, 254), ("num_comp_vectors", 1, 1024),
            ("max_mr_size", 1 << 30, (1 << 64) - 1), ("max_msg_sz", 1 << 23, (1 << 32) - 1)]:
        value = number(text, name)
        expect(least <= value <= most, f"{name} is {value}, sane is {least} to {most}")
    for name in ("vendor_id", "vendor_part_id"):
        expect(number(text, name) not in (0, 0x8086, 0x02c9, 0x15b3), f"{name} names no maker, or impersonates another one")
    expect(number(text, "port_lid") == 0, "port_lid is not 0")


def case_gids(lab):
    text = lab.start("ibv_devinfo", ["ibv_devinfo", "-v"]).succeed(20)
    found = gids(text)
    expect(sorted(found) == list(range(number(text, "gid_tbl_len"))), f"the GID table has holes: {sorted(found)}")
    expect(found[0].is_link_local, f"the first GID is {found[0]}")
    expect(text.count("RoCE v2") == len(found), "a GID is not of type RoCE v2")
    others = [gid for index, gid in found.items() if index > 0]
    expect(others, f"no IP-based GID beside the first: {found}")
    expect(len(set(found.values())) == len(found), f"a GID is there twice: {found}")
    if lab.place == "netns":
        for address in (f"::ffff:{lab.address}", lab.address6):
            expect(ipaddress.IPv6Address(address) in others, f"{address} is not among the GIDs {others}")


def case_ibstatus(lab):
    """A shell script that changes into the device's directories and has the shell list them. (ibstat speaks of InfiniBand
    alone: libibumad leaves out every device whose node type is RNIC.)"""
    lib.need("ibstatus")
    text = lab.start("ibstatus", ["ibstatus"]).succeed(20 * lab.slow)
    for name, value in [("default gid", r"[0-9a-f:]{39}"), ("base lid", "0x0"), ("sm lid", "0x0"), ("state", "4: ACTIVE"),
                        ("phys state", "5: LinkUp"), ("rate", r"\d+ Gb/sec .*"), ("link_layer", "Ethernet")]:
        expect(re.search(rf"^\s*{name}:\s+{value}\s*$", text, re.M), f"ibstatus shows no good {name}")
    expect(text.count("Infiniband device 'swr0' port 1 status") == 1, "not one device with one port")
    one = lab.start("ibstatus-port", ["ibstatus", "swr0:1"]).succeed(20 * lab.slow)
    expect(one == text, "the port by its name shows something else")


def case_directories(lab):
    """Tools that walk directories, each in its own way, see the device; and programs that a shell starts in one of its
    directories are there."""
    def run(script):
        return lab.start("sh", ["sh", "-c", script]).succeed(20 * lab.slow).split()

    port = "/sys/class/infiniband/swr0/ports/1"
    expect("infiniband" in run("ls /sys/class"), "ls /sys/class")
    expect(run("cd /sys/class/infiniband && echo *") == ["swr0"], "a shell's own pattern")
    expect(run("cd /sys/class/infiniband && ls && cat swr0/node_type") == ["swr0", "4:", "RNIC"], "ls and cat in a directory")
    expect(run("cd /sys/class/infiniband/swr0/ports && cd 1 && pwd && cat state") == [port, "4:", "ACTIVE"], "two steps")
    expect(run("cd /sys/class/infiniband && cd / && pwd && /bin/pwd") == ["/", "/"], "out again")
    found = run("find /sys/class/infiniband/swr0/ -name 'state' -o -name uevent")
    expect(sorted(found) == ["/sys/class/infiniband/swr0/" + name for name in ("ports/1/state", "uevent")], f"find: {found}")
    netdev = run(f"cat {port}/gid_attrs/ndevs/0")
    expect(run("ls /sys/class/infiniband/swr0/device/net/") == netdev, "the interface of the parent")
    expect(run(f"ls {port}/net/") == netdev, "the interface of the port")
    expect(run("realpath /sys/class/infiniband_verbs/uverbs0/device") == run("readlink -f /sys/class/infiniband/swr0/device"),
           "two links to the parent")
    expect("->" in run("ls -l /sys/class/infiniband"), "ls -l shows a link")


def case_several(lab):
    """SWRNIC_DEVICES: the tools show each device, and programs choose one by its name."""
    settings = {"SWRNIC_DEVICES": "3"}
    text = lab.start("ibv_devices", ["ibv_devices"], settings=settings).succeed(20)
    shown = re.findall(r"^\s*(swr\d)\s+([0-9a-f]{16})\s*$", text, re.M)
    expect([name for name, _ in shown] == ["swr0", "swr1", "swr2"], f"ibv_devices lists {shown}")
    expect(len({guid for _, guid in shown}) == 3, f"two devices have one GUID: {shown}")
    status = lab.start("ibstatus", ["ibstatus"], settings=settings).succeed(20)
    expect(re.findall(r"device '(swr\d)' port 1", status) == ["swr0", "swr1", "swr2"], "ibstatus does not show three devices")
    port = lib.free_port()
    server = ["ib_write_bw", "-F", "-n", 100, "-p", port, "-d"]
    lab.pair([*server, "swr1"], [*server, "swr2", lab.address], port, settings=settings)


def case_rdma(lab):
    """iproute2's `rdma`, in both personas and with three devices: what it shows is what the other tools show. It holds no
    resources, and sees those of no other process."""
    lib.need("rdma")
    for persona, node_type, protocol in (("iwarp", "rnic", "iw"), ("roce", "ca", "roce")):
        for devices in (1, 3):
            settings = {"SWRNIC_PERSONA": persona, "SWRNIC_DEVICES": str(devices)}

            def run(*command):
                return lab.start(command[0], command, settings=settings).succeed(20 * lab.slow)

            def listed(*command):
                return json.loads(run("rdma", "-j", *command))

            names = [f"swr{i}" for i in range(devices)]
            guids = dict(re.findall(r"^\s*(swr\d)\s+([0-9a-f]{16})\s*$", run("ibv_devices"), re.M))
            found = listed("dev")
            expect([each["ifname"] for each in found] == names, f"rdma dev: {found}")
            expect([each["ifindex"] for each in found] == list(range(devices)), f"rdma dev: {found}")
            for each in found:
                guid = each["node_guid"].replace(":", "")
                expect(each["node_type"] == node_type and guid == guids[each["ifname"]], f"rdma dev: {found}")
            netdev = run("cat", "/sys/class/infiniband/swr0/ports/1/gid_attrs/ndevs/0").strip()
            for each in listed("link"):
                expect((each["ifname"], each["port"]) == (names[each["ifindex"]], 1), f"rdma link: {each}")
                expect((each["state"], each["physical_state"], each["netdev"]) == ("ACTIVE", "LINK_UP", netdev), f"rdma link: {each}")
            expect(run("rdma", "link").count("state ACTIVE physical_state LINK_UP") == devices, "rdma link")
            # A newer iproute2 than 6.1 tells the protocol.
            expect(re.search(rf"^0: swr0: node_type {node_type} (protocol {protocol} )?fw 0\.0\.0 node_guid", run("rdma", "dev"), re.M), "rdma dev")
            expect("caps: <MEM_WINDOW, MEM_WINDOW_TYPE_2B>" in run("rdma", "-d", "dev", "show", names[-1]), "rdma -d dev show")
            kinds = ("pd", "cq", "qp", "cm_id", "mr", "ctx", "srq")
            for each in listed("resource"):
                expect([each[kind] for kind in kinds] == [0] * len(kinds), f"rdma resource: {each}")
            for kind in kinds:
                expect(run("rdma", "resource", "show", kind) == "", f"rdma resource show {kind} shows something")
            expect(re.search("netns shared (monitor off )?copy-on-fork on", run("rdma", "system")), "rdma system")
            expect(protocol_of(lab, settings) == protocol, f"the protocol is not {protocol}")
            refused = lab.start("rdma-set", ["rdma", "dev", "set", "swr0", "name", "other"], settings=settings)
            expect(refused.wait(20 * lab.slow) != 0 and "not supported" in refused.text(), f"rdma dev set: {refused.text()}")


def protocol_of(lab, settings):
    """iproute2 6.1 does not print it."""
    ask = ("import socket, struct; s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 20); "
           "s.sendto(struct.pack('IHHIIHHI', 24, 5 << 10 | 1, 1, 1, 0, 8, 1, 0), (0, 0)); "
           "got = s.recv(4096); print([name for name in (b'iw', b'roce', b'ib') if b'\\x43\\0' + name + b'\\0' in got])")
    return lab.start("python", [lib.sys.executable, "-c", ask], settings=settings).succeed(20 * lab.slow).strip("[]b'\n")


def case_wrong_settings(lab):
    """A wrong value is refused with a line that names it; the program does not run."""
    for name, value in [("SWRNIC_CRC", "perhaps"), ("SWRNIC_FPDU", "1k"), ("SWRNIC_MPA_REV", "3"),
                        ("SWRNIC_TIMEOUT", "soon"), ("SWRNIC_RNR_TIMEOUT", "-1"), ("SWRNIC_PORTS", "80-90"), ("SWRNIC_DEVICES", "17"), ("SWRNIC_LOG", "loud")]:
        process = lab.start("ibv_devices", ["ibv_devices"], settings={name: value})
        code = process.wait(20)
        expect(code != 0, f"{name}={value} was accepted")
        text = process.text()
        expect(name in text and value in text, f"the refusal of {name}={value} does not name it: {text!r}")
        expect("swr0" not in text, f"{name}={value}: the program ran all the same")


if __name__ == "__main__":
    lib.main(globals())
