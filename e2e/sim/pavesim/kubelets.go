package pavesim

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/e2e/sim/objects"
	"nstance.dev/e2e/sim/pavesim/cluster"
	"nstance.dev/e2e/sim/pavesim/machine"
)

// kubelet is that of one boot of a node machine. It asks for a certificate with the credential that
// lies in its slot, makes its Node once after it has started, and then only says that it lives.
type kubelet struct {
	active     bool
	registered bool
	restarts   int
	request    string // for a certificate; empty: none is under way
	rests      time.Time
	beat       time.Time
}

// Files of a node machine.
const (
	certificate = "var/lib/kubelet/pki/kubelet-client-current.pem"
	bootstrap   = "etc/kubernetes/bootstrap-kubelet.conf"
)

// live lets the kubelets of a host do what they do.
func (w *world) live(h *host) {
	for _, r := range h.Runs() {
		k := h.kubelets[r.Boot]
		if k == nil {
			k = &kubelet{}
			h.kubelets[r.Boot] = k
			w.oracle.booted(h, r)
		}
		if k.active != r.Kubelet || k.restarts != r.Restarts {
			k.active, k.registered, k.restarts = r.Kubelet, false, r.Restarts
		}
		if !k.active || w.refusal(false) != nil || time.Now().Before(k.rests) {
			continue
		}
		if h.Read(r.Slot, certificate) == "" {
			w.join(h, r, k)
		} else {
			w.register(h, r, k)
		}
	}
}

var tokenLine = regexp.MustCompile(`token: "?([^\s"]+)`)

// tokenID is how the API server calls the token of a kubeconfig; empty: there is none in it.
func tokenID(kubeconfig string) string {
	found := tokenLine.FindStringSubmatch(kubeconfig)
	if found == nil {
		return ""
	}
	parts := strings.Split(found[1], ".")
	if len(parts) != 3 {
		return ""
	}
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	var of struct {
		ID string `json:"jti"`
	}
	if err != nil || json.Unmarshal(claims, &of) != nil {
		return ""
	}
	return "JTI=" + of.ID
}

// join asks for a certificate, and takes it where it was approved.
func (w *world) join(h *host, r machine.Running, k *kubelet) {
	if k.request != "" {
		c, there := objects.Find[*certificatesv1.CertificateSigningRequest](w.api.Store, k.request)
		switch verdict := settled(c, there); verdict {
		case certificatesv1.CertificateApproved:
			k.request = ""
			w.notef("%s: the kubelet has its certificate", h.name)
			if err := h.Write(r.Slot, certificate, c.Name); err != nil {
				panic(fmt.Sprintf("pavesim: %v", err))
			}
		case certificatesv1.CertificateDenied:
			k.request, k.rests = "", time.Now().Add(20*time.Second)
		}
		return
	}
	id := tokenID(h.Read(r.Slot, bootstrap))
	if _, usable := w.api.Bound(id); !usable || w.bad("sha256:"+strings.TrimPrefix(strings.TrimSpace(h.Read(r.Slot, "etc/nstance/hash")), "sha256:"), neverJoins) {
		k.rests = time.Now().Add(10 * time.Second)
		return
	}
	k.request = w.ask(id, h.name)
}

// ask makes a request for the certificate of a Node.
func (w *world) ask(credential, node string) string {
	w.requests++
	c := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("csr-%d", w.requests)}}
	c.Spec = certificatesv1.CertificateSigningRequestSpec{
		SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName, Username: user,
		Extra:  map[string]certificatesv1.ExtraValue{"authentication.kubernetes.io/credential-id": {credential}},
		Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}, Request: requestFor(node),
	}
	w.notef("%s is made with %s, for %s: %v", c.Name, credential, node, w.api.Create("kubelet", c))
	return c.Name
}

// settled is what became of a request; one that is gone was denied.
func settled(c *certificatesv1.CertificateSigningRequest, there bool) certificatesv1.RequestConditionType {
	if !there {
		return certificatesv1.CertificateDenied
	}
	for _, condition := range c.Status.Conditions {
		return condition.Type
	}
	return ""
}

// register makes the Node or takes it over, if it has not since the kubelet started, and says that it lives.
func (w *world) register(h *host, r machine.Running, k *kubelet) {
	_, there := objects.Find[*corev1.Node](w.api.Store, h.name)
	if !k.registered && !there {
		w.notef("%s: the kubelet of %s makes the Node: %v", h.name, r.Boot, w.api.Create("kubelet", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.name}}))
		there = true
	}
	if !there || k.registered && time.Since(k.beat) < 30*time.Second {
		k.registered = true
		return
	}
	err := w.api.Change("kubelet", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.name}}, true, func(o client.Object) {
		if n, ok := o.(*corev1.Node); ok {
			if !k.registered {
				n.Status.NodeInfo.BootID = r.Boot
			}
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: cluster.Now()}}
		}
	})
	if err != nil {
		w.notef("%s: the kubelet of %s: %v", h.name, r.Boot, err)
		return
	}
	k.registered, k.beat = true, time.Now()
}

// nodesAge is what the API server's own controllers say of Nodes of which nothing is heard.
func (w *world) nodesAge() {
	for _, n := range objects.All[*corev1.Node](w.api.Store) {
		if ready(n) != corev1.ConditionTrue || len(n.Status.Conditions) == 0 || time.Since(n.Status.Conditions[0].LastHeartbeatTime.Time) < 50*time.Second || w.refusal(false) != nil {
			continue
		}
		_ = w.api.Change("controllers", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}, true, func(o client.Object) {
			if n, ok := o.(*corev1.Node); ok {
				n.Status.Conditions[0].Status = corev1.ConditionUnknown
			}
		})
	}
}

// key is that of all kubelets and of the API server: nobody verifies anything here.
var key = sync.OnceValue(func() *ecdsa.PrivateKey {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // the system has no randomness
	}
	return k
})

var requestsMade sync.Map

// requestFor is a request for the certificate of a Node, in PEM.
func requestFor(node string) []byte {
	if made, ok := requestsMade.Load(node); ok {
		text, _ := made.([]byte)
		return text
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
	}, key())
	if err != nil {
		panic(err) // the template has what it takes
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	requestsMade.Store(node, text)
	return text
}

// bundle is the certificate of the API server's authority, in PEM.
var bundle = sync.OnceValue(func() []byte {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "sim"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key().PublicKey, key())
	if err != nil {
		panic(err) // the template has what it takes
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
})
