package network_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/agent/paver/network"
)

const (
	before = `{"nftables": [{"metainfo": {"version": "1.0.6"}},
 {"table": {"family": "ip", "name": "nat", "handle": 1}},
 {"chain": {"family": "ip", "table": "nat", "name": "PREROUTING", "handle": 1, "type": "nat"}},
 {"chain": {"family": "ip", "table": "nat", "name": "KUBE-MARK-MASQ", "handle": 2}},
 {"table": {"family": "inet", "name": "kube-firewall-of-mine", "handle": 2}}]}`
	after = `{"nftables": [
 {"table": {"family": "ip", "name": "nat", "handle": 1}},
 {"table": {"family": "inet", "name": "kube-firewall-of-mine", "handle": 2}},
 {"table": {"family": "ip", "name": "kube-proxy", "handle": 9}},
 {"table": {"family": "ip", "name": "mine", "handle": 10}},
 {"chain": {"family": "ip", "table": "nat", "name": "PREROUTING", "handle": 1, "type": "nat"}},
 {"chain": {"family": "ip", "table": "nat", "name": "KUBE-MARK-MASQ", "handle": 2}},
 {"chain": {"family": "ip", "table": "nat", "name": "KUBE-SERVICES", "handle": 3}},
 {"chain": {"family": "ip", "table": "nat", "name": "CNI-HOSTPORT", "handle": 4}},
 {"chain": {"family": "ip", "table": "nat", "name": "OTHERS", "handle": 5}},
 {"chain": {"family": "ip", "table": "kube-proxy", "name": "KUBE-X", "handle": 1}},
 {"rule": {"family": "ip", "table": "nat", "chain": "PREROUTING", "handle": 7, "expr": [{"match": {"op": "=="}}, {"counter": null}, {"jump": {"target": "KUBE-SERVICES"}}]}},
 {"rule": {"family": "ip", "table": "nat", "chain": "PREROUTING", "handle": 8, "expr": [{"jump": {"target": "KUBE-MARK-MASQ"}}]}},
 {"rule": {"family": "ip", "table": "nat", "chain": "PREROUTING", "handle": 9, "expr": [{"goto": {"target": "CNI-HOSTPORT"}}, "notrack"]}},
 {"rule": {"family": "ip", "table": "nat", "chain": "KUBE-SERVICES", "handle": 10, "expr": [{"jump": {"target": "CNI-HOSTPORT"}}]}},
 {"rule": {"family": "ip", "table": "nat", "chain": "PREROUTING", "handle": 11, "expr": [{"jump": {"target": "OTHERS"}}]}}]}`
)

// host answers as the programs of a host do.
func host(links, rules, ruleset string) network.Run {
	return func(_ context.Context, argv ...string) ([]byte, error) {
		switch {
		case argv[0] == "nft" && ruleset == "":
			return nil, fmt.Errorf("nft: %w", exec.ErrNotFound)
		case argv[0] == "nft":
			return []byte(ruleset), nil
		case slices.Contains(argv, "link"):
			var all []string
			for name := range strings.FieldsSeq(links) {
				all = append(all, fmt.Sprintf(`{"ifindex":1,"ifname":%q}`, name))
			}
			return []byte("[" + strings.Join(all, ",") + "]"), nil
		case slices.Contains(argv, "-6"):
			return nil, errors.New("no IPv6")
		}
		return []byte(rules), nil
	}
}

func read(t *testing.T, run network.Run) network.State {
	t.Helper()
	s, err := network.Read(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLeftovers(t *testing.T) {
	was := read(t, host("lo eth0 veth-mine wg0", "", before))
	now := read(t, host("lo eth0 veth-mine wg0 veth123 cni0 eth1 cilium_host br-lan wg1",
		`[{"priority":0,"src":"all","table":"local"},{"priority":100,"iif":"cilium_host","table":"2005"},{"priority":200,"iif":"eth1","table":"7"}]`, after))
	var got []string
	for _, c := range network.Leftovers(was, now) {
		got = append(got, c.String())
	}
	want := []string{
		"nft delete table ip kube-proxy",
		"nft delete rule ip nat PREROUTING handle 7",
		"nft delete rule ip nat PREROUTING handle 9",
		"nft flush chain ip nat CNI-HOSTPORT",
		"nft flush chain ip nat KUBE-SERVICES",
		"nft delete chain ip nat CNI-HOSTPORT",
		"nft delete chain ip nat KUBE-SERVICES",
		"ip -4 rule delete priority 100 iif cilium_host lookup 2005",
		"ip link delete dev cilium_host",
		"ip link delete dev cni0",
		"ip link delete dev veth123",
		"ip link delete dev wg1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if left := network.Leftovers(now, now); len(left) > 0 {
		t.Errorf("of nothing that came: %v", left)
	}
}

// A host without nftables has its interfaces swept all the same.
func TestAHostWithoutNft(t *testing.T) {
	was, now := read(t, host("lo", "", "")), read(t, host("lo cni0", "", ""))
	if got := network.Leftovers(was, now); len(got) != 1 || got[0].String() != "ip link delete dev cni0" {
		t.Errorf("%v", got)
	}
}

func TestWhatCannotBeReadIsAnError(t *testing.T) {
	for name, run := range map[string]network.Run{
		"links": func(context.Context, ...string) ([]byte, error) { return []byte("{"), nil },
		"nft":   host("lo", "", "no JSON"),
		"rules": host("lo", "{", before),
		"ip":    func(context.Context, ...string) ([]byte, error) { return nil, exec.ErrNotFound },
	} {
		if s, err := network.Read(t.Context(), run); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// One that cannot be removed does not keep the others.
func TestEveryRemovalIsTried(t *testing.T) {
	var tried []string
	err := network.Remove(t.Context(), func(_ context.Context, argv ...string) ([]byte, error) {
		tried = append(tried, argv[len(argv)-1])
		if argv[len(argv)-1] == "a" {
			return nil, errors.New("busy")
		}
		return nil, nil
	}, []network.Command{{"ip", "a"}, {"ip", "b"}})
	if err == nil || !slices.Equal(tried, []string{"a", "b"}) {
		t.Errorf("tried %v, %v", tried, err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("lo cni0", `[{"priority":1,"iif":"cni0"}]`, after)
	f.Fuzz(func(t *testing.T, links, rules, ruleset string) {
		s, err := network.Read(t.Context(), host(links, rules, ruleset))
		if err != nil {
			return
		}
		for _, c := range network.Leftovers(network.State{}, s) {
			if c[0] != "nft" && c[0] != "ip" {
				t.Errorf("%v", c)
			}
		}
	})
}
