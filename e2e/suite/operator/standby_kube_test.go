//go:build kube && operator

package operator_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nstance.dev/e2e/env/kube"
)

// O1: of two operators one acts. The other one reads, looks at the Lease, calls no server and
// writes nothing else, whatever happens, until the first one has ended.
func TestO1_TheOperatorThatDoesNotLeadWritesNothing(t *testing.T) {
	s := startSystem(t, kube.BeAlone, kube.ReadAudit)
	if kube.Where().RunsPods() {
		t.Fatal("there is no second operator here")
	}
	leader := s.leader(t)
	standby := s.beside(t)
	kube.Await(t, "the second operator is there", func(ctx context.Context) error {
		_, err := standby.Metrics(ctx)
		return err
	})
	kube.Await(t, "it looks at the Lease", func(context.Context) error {
		if looked, _ := s.stoodBy(t); looked == 0 {
			return errors.New("it does not")
		}
		return nil
	})

	s.pool(t, "one-acts", "shards: [a, b]", 2)
	s.scale(t, "one-acts", 3)
	kube.Await(t, "the first one acts", s.settled("one-acts", 3))
	if _, wrote := s.stoodBy(t); len(wrote) > 0 {
		t.Errorf("beside a leader it wrote:\n%s", strings.Join(wrote, "\n"))
	}
	const calls = "nstance_operator_shard_rpc_duration_seconds_count"
	if text, err := standby.Metrics(t.Context()); err != nil || strings.Contains(text, calls) {
		t.Errorf("beside a leader it called servers (%v)", err)
	}
	if s.leader(t) != leader {
		t.Error("the Lease has gone over to the second one")
	}

	s.operator.Kill(t)
	s.scale(t, "one-acts", 0)
	kube.Await(t, "the second one acts", s.settled("one-acts", 0))
	if text, err := standby.Metrics(t.Context()); err != nil || !strings.Contains(text, calls) {
		t.Errorf("it leads, and has called no server (%v)", err)
	}
	if _, wrote := s.stoodBy(t); len(wrote) == 0 {
		t.Error("it leads, and has written nothing: the audit log does not show what it does")
	}
	standby.Kill(t) // and all else is done by the first one again
	s.succeed(t, s.leader(t))
}

// bystander is a group that the second operator is in, by which its requests are told from
// those of the first: both are the same account, as a chart's replicas are.
const bystander = "bystanders"

// beside starts a second operator until the end of the test.
func (s *system) beside(t *testing.T) *program {
	t.Helper()
	first, ok := s.operator.(*program)
	if !ok {
		t.Fatal("the operator is no program here")
	}
	config, err := s.User(s.user(), "system:serviceaccounts", "system:serviceaccounts:"+s.namespace, bystander)
	if err != nil {
		t.Fatal(err)
	}
	path, err := s.KubeconfigFile(config)
	if err != nil {
		t.Fatal(err)
	}
	standby := &program{binary: first.binary, log: filepath.Join(t.ArtifactDir(), s.namespace+"-standby.log"), env: first.env, metrics: freeAddress(t)}
	standby.args = append(slices.Clone(first.args),
		"--kubeconfig="+path, "--metrics-bind-address="+standby.metrics, "--health-probe-bind-address="+freeAddress(t))
	if err := standby.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("second operator:\n%s", standby.Log(40))
		}
		standby.Kill(t)
	})
	return standby
}

// stoodBy returns how often the second operator has looked at a Lease, and what else it has
// written.
func (s *system) stoodBy(t *testing.T) (looked int, wrote []string) {
	t.Helper()
	requests, err := s.Audit()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range requests {
		switch {
		case r.User != s.user() || !slices.Contains(r.Groups, bystander):
		case r.Resource == "leases":
			looked++
		case r.Resource != "" && !slices.Contains([]string{"get", "list", "watch"}, r.Verb):
			wrote = append(wrote, r.Verb+" "+r.URI)
		}
	}
	return looked, wrote
}
