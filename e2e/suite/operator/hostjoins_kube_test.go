//go:build kube

package operator_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"nstance.dev/e2e/env/kube"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/controllers/hosts/csr"
	"nstance.dev/operator/controllers/hosts/host"
	"nstance.dev/operator/controllers/hosts/selection"
	"nstance.dev/operator/policies/policytest"
)

// bootstrap is the service account that node machines join as, and where it is.
const bootstrap, bootstrapNamespace = "nstance-node-bootstrap", "nstance-hosts"

// M43: a credential is known to a real API server by the ID that the operator has written down; what is asked for with
// it is approved for the machine's own Node alone, and it ends with its Secret.
func TestM43_ACredentialJoinsItsOwnMachine(t *testing.T) {
	ownCluster(t)
	w := newHostWorld(t)
	w.make(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: bootstrapNamespace}})
	w.make(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: bootstrapNamespace, Name: bootstrap}})
	w.make(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: bootstrap}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node-bootstrapper"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: bootstrapNamespace, Name: bootstrap}},
	})
	w.approve(t)
	tokens := &host.Tokens{Client: w.admin, Namespace: bootstrapNamespace, ServiceAccount: bootstrap}
	issued, err := tokens.Issue(t.Context(), "box", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if life := time.Until(issued.Until); life > time.Hour+time.Minute || life < 50*time.Minute {
		t.Errorf("the credential lives %v", life)
	}
	m := &hostsv1.HostMachine{ObjectMeta: metav1.ObjectMeta{Name: "box"}, Spec: hostsv1.HostMachineSpec{Provisioner: hostsv1.ProvisionerManual}}
	w.make(t, m)
	kube.Await(t, "the machine joins with it", func(ctx context.Context) error {
		if err := w.admin.Get(ctx, client.ObjectKey{Name: "box"}, m); err != nil {
			return err
		}
		m.Status.Configuration = &hostsv1.ConfigurationStatus{Assigned: &hostsv1.AssignedVersion{VersionReference: hostsv1.VersionReference{Name: "gpu", Version: 1}, Epoch: 1}}
		m.Status.Repave = &hostsv1.RepaveStatus{Epoch: 1, Mode: hostsv1.ModePave, Stage: "Join", Join: &hostsv1.JoinStatus{Epoch: 1, Sequence: 1, CredentialID: issued.ID}}
		return w.admin.Status().Update(ctx, m)
	})
	config := rest.AnonymousClientConfig(w.cluster.Admin())
	config.BearerToken = issued.Token
	kubelet, err := client.New(config, client.Options{Scheme: w.admin.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	const approved, denied = certificatesv1.CertificateApproved, certificatesv1.CertificateDenied
	for _, tt := range []struct {
		node, signer string
		want         certificatesv1.RequestConditionType
		told         string
	}{
		{"box", certificatesv1.KubeAPIServerClientKubeletSignerName, approved, ""},
		{"other", certificatesv1.KubeAPIServerClientKubeletSignerName, denied, `it asks for common name "system:node:other"`},
		{"box", certificatesv1.KubeletServingSignerName, denied, "it is for signer " + certificatesv1.KubeletServingSignerName},
		{"box", "example.com/signer", denied, "it is for signer example.com/signer"},
		{"box", certificatesv1.KubeAPIServerClientKubeletSignerName, approved, ""},
		{"box", certificatesv1.KubeAPIServerClientKubeletSignerName, approved, ""},
		{"box", certificatesv1.KubeAPIServerClientKubeletSignerName, denied, "3 certificates were approved for epoch 1"},
	} {
		node, want := tt.node, tt.want
		request := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-csr-"}, Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: tt.signer, Request: requestOf(t, node),
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		}}
		if err := kubelet.Create(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		kube.Await(t, fmt.Sprintf("the request for Node %s is %s", node, want), func(ctx context.Context) error {
			if err := kubelet.Get(ctx, client.ObjectKeyFromObject(request), request); err != nil {
				return err
			}
			if c := request.Status.Conditions; len(c) != 1 || c[0].Type != want {
				return fmt.Errorf("conditions %+v", c)
			}
			return nil
		})
		kube.Await(t, "the reason is in an event: "+tt.told, func(ctx context.Context) error {
			var all eventsv1.EventList
			if err := w.admin.List(ctx, &all); err != nil || tt.told == "" {
				return err
			}
			for _, e := range all.Items {
				if e.Reason == hostsv1.EventCSRDenied && e.Regarding.Name == "box" && strings.Contains(e.Note, request.Name) && strings.Contains(e.Note, tt.told) {
					return nil
				}
			}
			return fmt.Errorf("none of %d events says so", len(all.Items))
		})
	}
	if err := w.admin.Get(t.Context(), client.ObjectKey{Name: "box"}, m); err != nil {
		t.Fatal(err)
	}
	if c := m.Status.Repave.Certificates; c == nil || c.Approved != 3 || c.Epoch != 1 {
		t.Errorf("counted: %+v", c)
	}
	if m.Status.Repave.Join == nil || m.Status.Repave.Stage != "Join" {
		t.Errorf("what others write is gone: %+v", m.Status.Repave)
	}
	var secrets corev1.SecretList
	if err := kubelet.List(t.Context(), &secrets); !apierrors.IsForbidden(err) {
		t.Errorf("the credential lists Secrets: %v", err)
	}
	if err := tokens.Revoke(t.Context(), "box"); err != nil {
		t.Fatal(err)
	}
	kube.Await(t, "the credential has ended", func(ctx context.Context) error {
		var all certificatesv1.CertificateSigningRequestList
		if err := kubelet.List(ctx, &all); !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	})
}

// approve runs the controller of certificate signing requests, as the operator.
func (w *hostWorld) approve(t *testing.T) {
	t.Helper()
	config, err := w.cluster.User(policytest.Params.User, "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	o := ctrl.Options{Scheme: w.admin.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, Controller: asShipped}
	o.Controller.SkipNameValidation = &yes
	mgr, err := ctrl.NewManager(config, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := csr.Register(t.Context(), mgr.GetFieldIndexer()); err != nil {
		t.Fatal(err)
	}
	if err := mgr.GetFieldIndexer().IndexField(t.Context(), &hostsv1.HostMachine{}, selection.IndexField, selection.Index); err != nil {
		t.Fatal(err)
	}
	r := csr.New(csr.Options{
		Machines: mgr.GetClient(), Requests: mgr.GetClient(), ServiceAccount: "system:serviceaccount:" + bootstrapNamespace + ":" + bootstrap,
		Events: mgr.GetEventRecorder("nstance-operator"), Notice: func(_ context.Context, _ runtime.Object, reason, _, format string, args ...any) {
			t.Logf("%s: %s", reason, fmt.Sprintf(format, args...))
		}, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	if err := r.Start(mgr, mgr, controller.Options{SkipNameValidation: &yes}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// requestOf is the request of a kubelet for the certificate of a Node, PEM.
func requestOf(t *testing.T, node string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}
