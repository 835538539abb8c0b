package cli_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nstance.dev/admin/cli"
	"nstance.dev/admin/kubeclient/kubetest"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// operationsConsole is a console at a cluster with an operation that waits, one in progress, and one on three
// machines of which one has failed.
func operationsConsole(t *testing.T) (*console, *kubetest.Server) {
	t.Helper()
	s := kubetest.New(t)
	operation := func(name, on string, state hostsv1.OperationState, reason, message string) *hostsv1.MachineOperation {
		op := &hostsv1.MachineOperation{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), CreationTimestamp: at(40 * time.Hour)}}
		op.Spec.OperationName = "example.com/packetCapture"
		op.Spec.Parameters = map[string]hostsv1.ParameterValue{"seconds": "30"}
		if on != "" {
			op.Spec.MachineRef = &hostsv1.MachineReference{Name: hostsv1.Label(on)}
			op.Labels = map[string]string{hostsv1.LabelMachine: on}
		} else {
			op.Spec.MachineSelector = &hostsv1.MachineSelector{}
		}
		op.Status = hostsv1.MachineOperationStatus{State: state, Reason: reason, Message: message}
		return op
	}
	start, end := at(41*time.Hour), at(42*time.Hour)
	runs := operation("runs", "m1", hostsv1.OperationInProgress, hostsv1.ReasonClaimed, "")
	runs.Status.Executor, runs.Status.Attempts, runs.Status.StartTime, runs.Status.Deadline = "tracer", 1, &start, &end
	s.Put(runs)
	s.Put(operation("waits", "m1", hostsv1.OperationPending, hostsv1.ReasonQueued, "MachineOperation runs comes first"))
	all := operation("all", "", hostsv1.OperationInProgress, hostsv1.ReasonBegun, "")
	all.Status.Children = &hostsv1.OperationChildren{Total: 3, Complete: 1, Failed: 1, InProgress: 1}
	s.Put(all)
	done := operation("all-1f0c6a3b", "m2", hostsv1.OperationComplete, hostsv1.ReasonSucceeded, "")
	done.Status.Results = map[string]hostsv1.ParameterValue{"packets": "12"}
	done.Status.CompletionTime = &end
	failed := operation("all-9be27d10", "m3", hostsv1.OperationFailed, hostsv1.ReasonExecutorLost, "executor tracer has said nothing")
	under := operation("all-c4418e07", "m4", hostsv1.OperationInProgress, hostsv1.ReasonClaimed, "")
	for _, child := range []*hostsv1.MachineOperation{done, failed, under} {
		child.Labels[hostsv1.LabelParentUID] = "uid-all"
		s.Put(child)
	}
	c := newConsole(t)
	c.env["KUBECONFIG"] = s.Kubeconfig(t)
	return c, s
}

func TestOperationCommandsInEveryFormat(t *testing.T) {
	c, _ := operationsConsole(t)
	for name, args := range map[string][]string{"operation-list": {"operation", "list"}, "operation-get": {"operation", "get", "all"}} {
		for _, format := range []string{"table", "wide", "json", "yaml", "name"} {
			t.Run(name+"/"+format, func(t *testing.T) {
				golden(t, name+"."+format, c.ok(t, append(slices.Clone(args), "-o", format)...))
			})
		}
	}
}

// Lists of objects of Kubernetes are sorted as those of the servers are.
func TestObjectsAreSorted(t *testing.T) {
	c, _ := operationsConsole(t)
	states := func(args ...string) []string {
		return strings.Fields(c.ok(t, append([]string{"operation", "list", "-o", "jsonpath={.items[*].status.state}"}, args...)...))
	}
	if got := states("--sort-by", ".status.state"); len(got) < 3 || !slices.IsSorted(got) || slices.IsSorted(states()) {
		t.Errorf("sorted by their states these are %q, and otherwise %q", got, states())
	}
	for _, list := range []string{"machine", "mcfg", "operation"} {
		if got := c.ok(t, list, "list", "--no-headers", "--sort-by", ".metadata.name"); strings.Contains(got, "NAME") {
			t.Errorf("%s list without headers: %q", list, got)
		}
	}
}

// M78: what nobody has begun is cancelled, and nothing else is.
func TestM78_Cancel(t *testing.T) {
	c, s := operationsConsole(t)
	dry := "operation waits: would be cancelled (dry run: nothing was done)\noperation all: would be cancelled (dry run: nothing was done); on 1 machines it is in progress, and goes on\n"
	if got := c.ok(t, "operation", "cancel", "waits", "all", "--dry-run"); got != dry {
		t.Errorf("a dry run: got %q, want %q", got, dry)
	}
	if got, want := c.ok(t, "operation", "cancel", "waits", "all"), "operation waits: cancelled\noperation all: cancelled; on 1 machines it is in progress, and goes on\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := c.ok(t, "operation", "list", "-o", "name", "-l", hostsv1.LabelMachine+"=m1"), "runs\n"; got != want {
		t.Errorf("left are %q, want %q", got, want)
	}
	for name, want := range map[string]string{
		"runs": "is not interrupted: executor tracer has it", "all-1f0c6a3b": "has ended already: Complete/Succeeded", "none": "nstance-admin operation list",
	} {
		if got := c.fails(t, cli.ExitFailed, "operation", "cancel", name); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	_ = s
}

// An operation is asked for and followed to its end, good or bad.
func TestMachineOp(t *testing.T) {
	for state, row := range map[hostsv1.OperationState]struct {
		code int
		want string
	}{
		hostsv1.OperationComplete: {0, "operation packetcapture-00001: Complete/Succeeded"},
		hostsv1.OperationFailed:   {cli.ExitFailed, "operation packetcapture-00001 failed: Expired: nobody"},
	} {
		t.Run(string(state), func(t *testing.T) {
			c, s := operationsConsole(t)
			go func() {
				<-s.Opened()
				s.Put(&hostsv1.MachineOperation{
					ObjectMeta: metav1.ObjectMeta{Name: "packetcapture-00001", UID: "uid-packetcapture-00001"},
					Status: hostsv1.MachineOperationStatus{State: state, Reason: map[hostsv1.OperationState]string{
						hostsv1.OperationComplete: hostsv1.ReasonSucceeded, hostsv1.OperationFailed: hostsv1.ReasonExpired,
					}[state], Message: "nobody"},
				})
			}()
			args := []string{"machine", "op", "example.com/packetCapture", "-l", "pool in (a,b),!old", "--max-concurrent", "5", "--param", "seconds=30", "--param", "filter=a=b", "--operation-timeout", "5m", "--ttl", "1h", "--wait"}
			var got string
			if row.code == 0 {
				got = c.ok(t, args...)
			} else {
				got = c.fails(t, row.code, args...)
			}
			if !strings.Contains(got, row.want) {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
	c, _ := operationsConsole(t)
	if got, want := c.ok(t, "machine", "op", "example.com/packetCapture", "--machine", "m1", "--dry-run"), "operation example.com/packetCapture: would be asked for (dry run: nothing was done)\n"; got != want {
		t.Errorf("a dry run: got %q, want %q", got, want)
	}
	if got := c.fails(t, cli.ExitFailed, "operation", "get", "packetcapture-00001"); !strings.Contains(got, "packetcapture-00001") {
		t.Errorf("what a dry run has made: %q", got)
	}
	c.ok(t, "machine", "op", "example.com/packetCapture", "-l", "pool in (a,b),!old", "--max-concurrent", "5", "--param", "seconds=30", "--param", "filter=a=b", "--operation-timeout", "5m", "--ttl", "1h")
	golden(t, "machine-op.yaml", c.ok(t, "operation", "get", "packetcapture-00001", "-o", "yaml"))
	for args, want := range map[string]string{
		"machine op reboot":                                       "--machine, or machines with --selector",
		"machine op reboot --machine a -l b=c":                    "--machine, or machines with --selector",
		"machine op reboot --machine a --max-concurrent 2":        "--max-concurrent",
		"machine op reboot --machine a --param x":                 "no KEY=VALUE",
		"machine op reboot --machine a --operation-timeout 100ms": "--operation-timeout",
		"machine op reboot -l a>1":                                "must be one of =, ==, !=, in, notin",
	} {
		if got := c.fails(t, cli.ExitUsage, strings.Fields(args)...); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}

// A repave is asked for by its own command, with what it takes and nothing else.
func TestMachineRepave(t *testing.T) {
	c, _ := operationsConsole(t)
	if got, want := c.ok(t, "machine", "repave", "m1", "--dry-run"), "operation repave: would be asked for (dry run: nothing was done)\n"; got != want {
		t.Errorf("a dry run: got %q, want %q", got, want)
	}
	for _, tt := range []struct{ flags, want string }{
		{"", `{"machineRef":{"name":"m1"},"operationName":"repave"}`},
		{"--version 12 --drain=false", `{"machineRef":{"name":"m1"},"operationName":"repave","parameters":{"drain":"false","version":"12"}}`},
	} {
		c, _ := operationsConsole(t)
		if got, want := c.ok(t, append([]string{"machine", "repave", "m1"}, strings.Fields(tt.flags)...)...), "operation repave-00001: asked for\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := c.ok(t, "operation", "get", "repave-00001", "-o", "jsonpath={.spec}"); strings.TrimSpace(got) != tt.want {
			t.Errorf("repave %s: got %s, want %s", tt.flags, got, tt.want)
		}
	}
	if got := c.fails(t, cli.ExitUsage, "machine", "repave"); !strings.Contains(got, "MACHINE") {
		t.Errorf("without a machine: %q", got)
	}
}
