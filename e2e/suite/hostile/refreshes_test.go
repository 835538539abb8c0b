package hostile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// What a refresh comes to whose configuration is not put in force: the server goes on with
// the one before.
const (
	isInvalid    = "InvalidArgument INVALID_CONFIG, and the server goes on"
	isImpossible = "FailedPrecondition CONFIG_NOT_APPLICABLE, and the server goes on"
)

// refreshes are configurations with which nobody could lead, or that give the cluster's own
// keys away.
func refreshes() (rows []attempt) {
	for _, r := range []struct {
		promise, name, held string
		change              map[string]any
	}{
		{"S26", "a leader's time-out of two hours ends every server", isInvalid, map[string]any{"server/shard_election/leader_timeout": "2h"}},
		{"S26", "a leader's time-out with a fraction of a second ends every server", isInvalid, map[string]any{"server/shard_election/leader_timeout": "5500ms"}},
		{"S26", "a time-out of the cluster's leader above an hour ends every server", isInvalid, map[string]any{"server/cluster_election/leader_timeout": "61m"}},
		{"S26", "a prefix of secrets without the cluster's keys ends every server", isImpossible, map[string]any{"server/secrets/prefix": "other/"}},
		{"S26", "an encryption key that is gone ends every server", isImpossible, map[string]any{"server/secrets/encryption_key/source": "/gone/encryption.key"}},
		{"S26", "an address of another box ends every server", isImpossible, map[string]any{"server/bind/agent_addr": "192.0.2.1:8994"}},
		{"S26", "the agent's program is gone", isImpossible, map[string]any{"server/provider/options/agent": "/gone/nstance-agent"}},
		{"S26", "a prefix of secrets that leaves the bucket", isInvalid, map[string]any{"server/secrets/prefix": "../x"}},
		{"S14", "the secrets lie where the configurations are", isInvalid, map[string]any{"server/secrets/prefix": "config/"}},
		{"S14", "the secrets lie where the records are", isInvalid, map[string]any{"server/secrets/prefix": "instance/"}},
		{"S14", "the authority's private key is delivered as a file", isInvalid, map[string]any{
			"server/allow_any_storage_source": true, "templates/mute/files/stolen": map[string]any{"kind": "storage", "source": "secret/ca.key"},
		}},
		{"S14", "the authority's private key is delivered from where files are", isInvalid, map[string]any{
			"server/secrets/prefix": "files/", "templates/mute/files/stolen": map[string]any{"kind": "storage", "source": "files/ca.key"},
		}},
		{"S14", "the authority's private key is delivered as a secret", isInvalid, map[string]any{
			"templates/mute/files/stolen": map[string]any{"kind": "secret", "source": "ca.key"},
		}},
		{"S19", "no JSON", isInvalid, nil},
	} {
		rows = append(rows, attempt{r.promise, r.name, r.held, func(t *testing.T, w *world) string {
			good := w.document(t).text(t)
			defer w.restore(t, good)
			bad := w.document(t)
			for path, value := range r.change {
				bad.set(path, value)
			}
			text := bad.text(t)
			if r.change == nil {
				text = strings.TrimRight(text, "}\n")
			}
			w.SetConfig(text)
			return w.refresh(t)
		}})
	}
	return append(rows, givenAway()...)
}

// refresh has the server read its configuration. It returns the answer, and what the server
// does then.
func (w *world) refresh(t *testing.T) string {
	t.Helper()
	c := w.operator(t, admin)
	resp, err := c.RefreshConfig(call(t), &emptypb.Empty{})
	if err == nil {
		// It may be that this server ends for it, in its own time.
		for start := time.Now(); time.Since(start) < 10*time.Second; time.Sleep(20 * time.Millisecond) {
			if w.server.Ended() {
				return fmt.Sprintf("updated: %t, and the process ended", resp.Updated)
			}
		}
		return fmt.Sprintf("updated: %t", resp.Updated)
	}
	if _, err := c.ListGroups(call(t), &emptypb.Empty{}); err != nil {
		return reason(err) + ", and nobody is served: " + said(err)
	}
	return reason(err) + ", and the server goes on"
}

// restore puts the good configuration in force again.
func (w *world) restore(t *testing.T, good string) {
	t.Helper()
	w.SetConfig(good)
	if w.server.Ended() {
		w.server = w.Serve("leader")
	}
	await(t, "the server leads with the good configuration", func() bool {
		if w.Leads("leader") != nil {
			return false
		}
		addrs, err := w.Leader()
		if err != nil {
			return false
		}
		w.addrs = addrs
		_, err = w.operator(t, admin).RefreshConfig(call(t), &emptypb.Empty{})
		return err == nil
	})
}

// givenAway is a file whose name a tenant completes. It is delivered to machines, so what it
// names must be none of the cluster's keys.
func givenAway() []attempt {
	return []attempt{{"S14", "a variable turns the name of a file into the authority's key", "not delivered", func(t *testing.T, w *world) string {
		good := w.document(t).text(t)
		defer w.restore(t, good)
		d := w.document(t)
		d.set("templates/mute/files/role", map[string]any{"kind": "storage", "source": "files/{{ .Vars.role }}"})
		d.set("templates/mute/vars", map[string]any{"role": "worker"})
		w.SetConfig(d.text(t))
		_, err := w.operator(t, admin).RefreshConfig(call(t), &emptypb.Empty{})
		if reasonOf(err) == "INVALID_CONFIG" { // unless an administrator allows it
			d.set("templates/mute/api_args", []string{"files.role"})
			w.SetConfig(d.text(t))
			_, err = w.operator(t, admin).RefreshConfig(call(t), &emptypb.Empty{})
		}
		if err != nil {
			return said(err)
		}
		config := plainGroup(0)
		config.Vars = &nstancev1.StringMap{Values: map[string]string{"role": "../secret/ca.key"}}
		if _, err := w.operator(t, attacker).UpsertGroup(call(t), &nstancev1.UpsertGroupRequest{Key: "role", Config: config}); err != nil {
			return "not delivered"
		}
		made, err := w.operator(t, attacker).CreateInstance(call(t), &nstancev1.CreateInstanceRequest{Config: &nstancev1.InstanceConfig{Group: "role"}})
		if err != nil {
			return said(err)
		}
		m := w.enter(t, w.made(t, made.InstanceId), nil)
		l := line{w.hello(t, m.cert, m.id), m}
		if sent, missing := l.files(t, "role"); missing == "" {
			return fmt.Sprintf("sent: %.40q", sent["role"])
		}
		return "not delivered"
	}}}
}
