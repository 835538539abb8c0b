package csr

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/testworld"
)

// world is a reconciler at an API server with machine a, which joins with credential JTI=a.
type world struct {
	t      *testing.T
	api    client.WithWatch
	faults testworld.Faults
	r      *Reconciler
	events testworld.Events
	// noticed is what was told of no machine.
	noticed []string
	count   map[Verdict]int
}

func run(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, count: map[Verdict]int{}}
		w.api = testworld.NewClientBuilder(t).
			WithStatusSubresource(&certificatesv1.CertificateSigningRequest{}).
			WithIndex(&hostsv1.HostMachine{}, IndexCredential, Index).
			WithIndex(&hostsv1.HostMachine{}, byNodeName, func(o client.Object) []string { return []string{o.(*hostsv1.HostMachine).NodeName()} }).Build()
		requests := interceptor.NewClient(w.api, interceptor.Funcs{
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, _ ...client.SubResourceUpdateOption) error {
				if sub != "approval" {
					return fmt.Errorf("unexpected update of %s", sub)
				}
				return c.Status().Update(ctx, o) // the fake has no approvals of its own
			},
		})
		writer := w.faults.Through(w.api)
		w.r = New(Options{
			Machines: writer, Requests: requests, ServiceAccount: account, Events: &w.events, Log: slog.New(slog.DiscardHandler), Now: time.Now,
			Decided: func(v Verdict) { w.count[v]++ },
			Notice: func(_ context.Context, related runtime.Object, reason, _, format string, args ...any) {
				// Of two about the operator alone that come soon after one another, one would be shown.
				if c, is := related.(*certificatesv1.CertificateSigningRequest); !is || !strings.Contains(fmt.Sprintf(format, args...), c.Name) {
					t.Errorf("%s is about %v", reason, related)
				}
				w.noticed = append(w.noticed, reason+": "+fmt.Sprintf(format, args...))
			},
		})
		w.machine("a", "node-a", "JTI=a")
		w.machine("b", "node-b", "JTI=b")
		test(w)
	})
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) machine(name, node, credential string) {
	w.t.Helper()
	m := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: hostsv1.HostMachineSpec{Provisioner: hostsv1.ProvisionerManual, NodeName: node}}
	w.must(w.api.Create(w.t.Context(), m))
	m.Status.Configuration = &hostsv1.ConfigurationStatus{Assigned: &hostsv1.AssignedVersion{VersionReference: hostsv1.VersionReference{Name: "gpu", Version: 1}, Epoch: 2}}
	m.Status.Repave = &hostsv1.RepaveStatus{Epoch: 2, Stage: "Join", Join: &hostsv1.JoinStatus{Epoch: 2, CredentialID: credential}}
	w.must(w.api.Status().Update(w.t.Context(), m))
}

func (w *world) change(name string, change func(*hostsv1.HostMachineStatus)) {
	w.t.Helper()
	m := &hostsv1.HostMachine{}
	w.must(w.api.Get(w.t.Context(), client.ObjectKey{Name: name}, m))
	change(&m.Status)
	w.must(w.api.Status().Update(w.t.Context(), m))
}

// ask makes a request of machine a's credential for the Node of that name.
func (w *world) ask(name, node string, change func(*certificatesv1.CertificateSigningRequestSpec)) {
	w.t.Helper()
	c := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec = certificatesv1.CertificateSigningRequestSpec{
		SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName, Username: account, Usages: clientUsages(),
		Extra: map[string]certificatesv1.ExtraValue{credentialKey: {"JTI=a"}}, Request: pemOf(w.t, subject("system:node:"+node, "system:nodes")),
	}
	if change != nil {
		change(&c.Spec)
	}
	w.must(w.api.Create(w.t.Context(), c))
}

func (w *world) pass(name string) (ctrl.Result, error) {
	return w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: name}})
}

// verdict looks at a request and returns what became of it: Approved, Denied or nothing.
func (w *world) verdict(name string) string {
	w.t.Helper()
	_, err := w.pass(name)
	w.must(err)
	c := &certificatesv1.CertificateSigningRequest{}
	w.must(w.api.Get(w.t.Context(), client.ObjectKey{Name: name}, c))
	var all []string
	for _, condition := range c.Status.Conditions {
		all = append(all, string(condition.Type))
	}
	return strings.Join(all, " ")
}

func (w *world) approved(name string) int32 {
	w.t.Helper()
	m := &hostsv1.HostMachine{}
	w.must(w.api.Get(w.t.Context(), client.ObjectKey{Name: name}, m))
	if m.Status.Repave.Certificates == nil {
		return 0
	}
	return m.Status.Repave.Certificates.Approved
}

// M43: three certificates of an epoch at most, each counted once; the next epoch begins anew.
func TestM43_ThreeOfAnEpoch(t *testing.T) {
	run(t, func(w *world) {
		for i := range 4 {
			name := fmt.Sprintf("r%d", i)
			w.ask(name, "node-a", nil)
			want := "Approved"
			if i == 3 {
				want = "Denied"
			}
			if got := w.verdict(name); got != want {
				t.Errorf("request %d: %q, want %q", i, got, want)
			}
			if got := w.verdict(name); got != want { // a second look changes nothing
				t.Errorf("request %d, again: %q", i, got)
			}
		}
		if n := w.approved("a"); n != 3 || w.count[Approve] != 3 || w.count[Deny] != 1 {
			t.Errorf("%d are counted, decided %v", n, w.count)
		}
		if told := strings.Join(w.events.All(), "\n"); !strings.Contains(told, "CSRDenied: HostMachine: certificate signing request r3 was denied: 3 certificates were approved for epoch 2, which is the limit") {
			t.Errorf("told\n%s", told)
		}
		w.change("a", func(s *hostsv1.HostMachineStatus) {
			s.Configuration.Assigned.Epoch, s.Repave.Epoch, s.Repave.Join.Epoch = 3, 3, 3
		})
		w.ask("later", "node-a", nil)
		if got := w.verdict("later"); got != "Approved" || w.approved("a") != 1 {
			t.Errorf("%q, %d are counted", got, w.approved("a"))
		}
	})
}

// M43: machine A for Node B is denied, with the reason in an event; what is foreign is left alone; what comes
// too early waits.
func TestM43_DeniedIgnoredWaiting(t *testing.T) {
	run(t, func(w *world) {
		w.ask("for-b", "node-b", nil)
		if got := w.verdict("for-b"); got != "Denied" {
			t.Errorf("machine A for Node B: %q", got)
		}
		if told := strings.Join(w.events.All(), "\n"); !strings.Contains(told, `it asks for common name "system:node:node-b", and its Node has "system:node:node-a"`) {
			t.Errorf("told\n%s", told)
		}
		w.ask("foreign", "node-a", func(s *certificatesv1.CertificateSigningRequestSpec) {
			s.Username, s.SignerName = "alice", "example.com/signer"
		})
		if got := w.verdict("foreign"); got != "" || len(w.events.All()) != 1 {
			t.Errorf("foreign: %q, told %v", got, w.events.All())
		}
		w.change("a", func(s *hostsv1.HostMachineStatus) { s.Repave.Stage = "Retire" })
		w.ask("early", "node-a", nil)
		if result, err := w.pass("early"); err != nil || result.RequeueAfter != again {
			t.Errorf("early: %v, %v", result, err)
		}
		w.change("a", func(s *hostsv1.HostMachineStatus) { s.Repave.Stage = "Boot" })
		if got := w.verdict("early"); got != "Approved" {
			t.Errorf("once it boots: %q", got)
		}
	})
}

// M43: the hostile requests of a host that was taken over, each with its reason in an event: of the machine that
// its credential or its Node is of, or of the operator where that is nobody's.
func TestM43_HostileRequests(t *testing.T) {
	run(t, func(w *world) {
		renews := func(s *certificatesv1.CertificateSigningRequestSpec) { s.Username, s.Extra = "system:node:node-a", nil }
		for _, tt := range []struct {
			name, node   string
			change       func(*certificatesv1.CertificateSigningRequestSpec)
			want, reason string
		}{
			{"the Node of another machine", "node-b", nil, "Denied", `it asks for common name "system:node:node-b"`},
			{"a server certificate", "node-a", func(s *certificatesv1.CertificateSigningRequestSpec) {
				s.SignerName = certificatesv1.KubeletServingSignerName
			}, "Denied", "it is for signer " + certificatesv1.KubeletServingSignerName},
			{"an administrator", "node-a", func(s *certificatesv1.CertificateSigningRequestSpec) {
				s.Request = pemOf(w.t, subject("admin", "system:masters"))
			}, "Denied", `it asks for common name "admin"`},
			{"a credential that nobody was given", "node-a", func(s *certificatesv1.CertificateSigningRequestSpec) {
				s.Extra = map[string]certificatesv1.ExtraValue{credentialKey: {"JTI=stolen"}}
			}, "Denied", "its credential was made for no machine that exists"},
			{"no credential", "node-a", func(s *certificatesv1.CertificateSigningRequestSpec) { s.Extra = nil }, "Denied", "it must be made with one credential that has an ID, and was made with 0"},
			{"a Node for another Node", "node-b", renews, "", `it asks for common name "system:node:node-b"`},
		} {
			told, noticed := len(w.events.All()), len(w.noticed)
			w.ask(strings.ReplaceAll(tt.name, " ", "-"), tt.node, tt.change)
			time.Sleep(patience)
			if got := w.verdict(strings.ReplaceAll(tt.name, " ", "-")); got != tt.want {
				t.Errorf("%s: %q", tt.name, got)
			}
			if news := strings.Join(append(w.events.All()[told:], w.noticed[noticed:]...), "\n"); !strings.Contains(news, tt.reason) || !strings.Contains(news, "CSRDenied") {
				t.Errorf("%s: told %q", tt.name, news)
			}
		}
		if w.approved("a") != 0 || w.approved("b") != 0 {
			t.Error("a certificate was counted")
		}
	})
}

// M1: of two machines with one node name the older has the Node, whose kubelet renews its certificate.
func TestM1_TheOlderMachineRenews(t *testing.T) {
	run(t, func(w *world) {
		time.Sleep(time.Minute)
		w.machine("younger", "node-a", "JTI=younger")
		w.ask("renewal", "node-a", func(s *certificatesv1.CertificateSigningRequestSpec) { s.Username, s.Extra = "system:node:node-a", nil })
		if got := w.verdict("renewal"); got != "Approved" {
			t.Errorf("%q", got)
		}
	})
}

// M43: the process ends between the count and the approval, or the count is refused: one too few is
// approved, and never one too many.
func TestM43_CountedBeforeItIsApproved(t *testing.T) {
	for _, after := range []bool{false, true} {
		run(t, func(w *world) {
			w.ask("r", "node-a", nil)
			w.faults.FailWrite(1, after, fmt.Errorf("the API server breaks"))
			if _, err := w.pass("r"); err == nil {
				t.Fatal("no error")
			}
			w.faults.FailWrite(-1, false, nil)
			if got := w.verdict("r"); got != "Approved" || w.approved("a") != 1 {
				t.Errorf("after %v: %q, %d are counted", after, got, w.approved("a"))
			}
		})
	}
}
