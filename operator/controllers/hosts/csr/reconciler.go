package csr

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/status"
)

// credentialKey is where the API server says with which credential a request was made.
const credentialKey = "authentication.kubernetes.io/credential-id"

// again is when a request that waits is looked at again.
const again = 2 * time.Second

// Options are the surroundings of a Reconciler; all are required, but for the counter.
type Options struct {
	// Machines reads HostMachines from a cache that has the indexes of [IndexCredential] and of node
	// names, and writes their statuses.
	Machines client.Client
	// Requests reads certificate signing requests from a cache, and settles them.
	Requests client.Client
	// ServiceAccount is the user name that the credentials of machines have.
	ServiceAccount string
	// Events are about HostMachines; Notice is about the operator as a whole and the request, for what is of no
	// machine.
	Events events.EventRecorder
	Notice func(ctx context.Context, related runtime.Object, reason, action, format string, args ...any)
	Log    *slog.Logger
	Now    func() time.Time
	// Decided hears each verdict; nil: nothing does.
	Decided func(Verdict)
}

// Reconciler settles certificate signing requests, which its requests name. New makes one; it is safe
// for concurrent use.
type Reconciler struct{ opts Options }

// New returns a reconciler.
func New(o Options) *Reconciler {
	if o.Decided == nil {
		o.Decided = func(Verdict) {}
	}
	return &Reconciler{opts: o}
}

var manager = status.FieldManager("hosts-csr")

// Reconcile settles one request. Its events are about the machine and the request: of two about the machine
// alone that come soon after one another, the second one's reason would be shown to nobody.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	c := &certificatesv1.CertificateSigningRequest{}
	if err := r.opts.Requests.Get(ctx, request.NamespacedName, c); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	machines := &lookup{ctx: ctx, reader: r.opts.Machines}
	d := Decide(r.request(c), r.opts.ServiceAccount, machines)
	if machines.err != nil {
		return ctrl.Result{}, machines.err
	}
	log := r.opts.Log.With("request", c.Name, "machine", d.Machine, "reason", d.Reason)
	switch d.Verdict {
	case Ignore:
		log.DebugContext(ctx, "left certificate signing request to others")
		if m := machines.objects[d.Machine]; m != nil {
			r.opts.Events.Eventf(m, c, corev1.EventTypeWarning, hostsv1.EventCSRDenied, "Ignore", "certificate signing request %s of its Node was not approved: %s", c.Name, d.Reason)
		}
		return ctrl.Result{}, nil
	case Wait:
		return ctrl.Result{RequeueAfter: again}, nil
	case Deny, Approve:
	}
	m := machines.objects[d.Machine]
	if d.Count {
		if err := r.count(ctx, m, c); err != nil {
			return ctrl.Result{}, err
		}
	}
	if err := r.settle(ctx, c, d); err != nil {
		return ctrl.Result{}, err
	}
	r.opts.Decided(d.Verdict)
	if d.Verdict == Approve {
		log.InfoContext(ctx, "approved certificate signing request")
		return ctrl.Result{}, nil
	}
	log.WarnContext(ctx, "denied certificate signing request", "user", c.Spec.Username)
	if m != nil {
		r.opts.Events.Eventf(m, c, corev1.EventTypeWarning, hostsv1.EventCSRDenied, "Deny", "certificate signing request %s was denied: %s", c.Name, d.Reason)
	} else {
		r.opts.Notice(ctx, c, hostsv1.EventCSRDenied, "Deny", "certificate signing request %s of %s was denied: %s", c.Name, c.Spec.Username, d.Reason)
	}
	return ctrl.Result{}, nil
}

// request is what a decision follows from.
func (r *Reconciler) request(c *certificatesv1.CertificateSigningRequest) Request {
	out := Request{
		UID: string(c.UID), Signer: c.Spec.SignerName, Username: c.Spec.Username, CredentialIDs: c.Spec.Extra[credentialKey],
		Usages: c.Spec.Usages, PEM: c.Spec.Request, Age: r.opts.Now().Sub(c.CreationTimestamp.Time), Settled: len(c.Status.Certificate) > 0,
	}
	for _, condition := range c.Status.Conditions {
		switch condition.Type {
		case certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			out.Settled = true
		}
	}
	return out
}

// count writes that a certificate is approved, before it is. Two requests that are looked at side by side
// are counted one after the other: the status is written only as it was read.
func (r *Reconciler) count(ctx context.Context, m *hostsv1.HostMachine, c *certificatesv1.CertificateSigningRequest) error {
	of := certificates(m)
	next := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion}}
	next.Status.Repave = &hostsv1.RepaveStatus{Certificates: &hostsv1.CertificateStatus{Epoch: of.Epoch, Approved: of.Approved + 1, LastRequest: string(c.UID)}}
	if err := status.ApplyUnchanged(ctx, r.opts.Machines, next, manager); err != nil {
		return fmt.Errorf("count the certificate of HostMachine %s: %w", m.Name, err)
	}
	return nil
}

// settle approves or denies the very request that was seen.
func (r *Reconciler) settle(ctx context.Context, c *certificatesv1.CertificateSigningRequest, d Decision) error {
	condition := certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "NodeMachine", Message: d.Reason, LastUpdateTime: metav1.NewTime(r.opts.Now()),
	}
	if d.Verdict == Deny {
		condition.Type = certificatesv1.CertificateDenied
	}
	next := c.DeepCopy()
	next.Status.Conditions = append(next.Status.Conditions, condition)
	if err := r.opts.Requests.SubResource("approval").Update(ctx, next); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("%s certificate signing request %s: %w", d.Verdict, c.Name, err)
	}
	return nil
}

// certificates is how many were approved for the epoch that is assigned.
func certificates(m *hostsv1.HostMachine) hostsv1.CertificateStatus {
	epoch := int64(0)
	if c := m.Status.Configuration; c != nil && c.Assigned != nil {
		epoch = c.Assigned.Epoch
	}
	if s := m.Status.Repave; s != nil && s.Certificates != nil && s.Certificates.Epoch == epoch {
		return *s.Certificates
	}
	return hostsv1.CertificateStatus{Epoch: epoch}
}
