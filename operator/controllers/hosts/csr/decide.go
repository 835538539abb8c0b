package csr

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"nstance.dev/operator/hosts/lifecycle"
)

const (
	// patience is how long a request may wait for its machine to report that it boots.
	patience = time.Minute

	nodePrefix = "system:node:"
	nodesGroup = "system:nodes"
)

// oidKeyUsage is the one extension that a request may have.
var oidKeyUsage = asn1.ObjectIdentifier{2, 5, 29, 15}

// Request is a certificate signing request, as the API server has it.
type Request struct {
	UID    string
	Signer string
	// Username is who made it, CredentialIDs with which credentials: the API server says both.
	Username      string
	CredentialIDs []string
	Usages        []certificatesv1.KeyUsage
	PEM           []byte
	// Age is how long ago it was made.
	Age time.Duration
	// Settled: it was approved, denied or has failed.
	Settled bool
}

// Stage is how far a machine is with joining.
type Stage string

// The stages.
const (
	Before  Stage = "before" // it has not begun to boot
	Joining Stage = "joining"
	After   Stage = "after" // it has joined, or was given up
)

// Machine is a HostMachine, as far as requests are concerned.
type Machine struct {
	Name, NodeName string
	Deleting       bool
	// Epoch of its assignment, and CredentialEpoch of the credential that was made last.
	Epoch, CredentialEpoch int64
	Stage                  Stage
	// Approved certificates of the epoch, the last of them for the request LastRequest.
	Approved    int32
	LastRequest string
}

// Fleet finds machines.
type Fleet interface {
	// ByCredential returns the machine that a credential was made for; false: none was.
	ByCredential(id string) (Machine, bool)
	// ByNode returns the machine whose Node has a name; false: there is none.
	ByNode(name string) (Machine, bool)
}

// Verdict is what becomes of a request.
type Verdict string

// The verdicts.
const (
	Ignore  Verdict = "ignore" // it is nothing of ours
	Wait    Verdict = "wait"   // for what its machine reports next
	Deny    Verdict = "deny"
	Approve Verdict = "approve"
)

// Decision is a verdict, and why.
type Decision struct {
	Verdict Verdict
	Reason  string
	// Machine that it is about; empty: none is known.
	Machine string
	// Count it in the status of the machine before it is approved, unless it was counted already.
	Count bool
}

// Decide returns what becomes of a request. serviceAccount is the user name that the credentials of
// machines have.
func Decide(r Request, serviceAccount string, fleet Fleet) Decision {
	switch {
	case r.Settled:
		return Decision{Verdict: Ignore, Reason: "it is settled"}
	case r.Signer != certificatesv1.KubeAPIServerClientKubeletSignerName && r.Username != serviceAccount:
		return Decision{Verdict: Ignore, Reason: "it is for signer " + r.Signer}
	case r.Username == serviceAccount:
		return joining(r, fleet)
	case strings.HasPrefix(r.Username, nodePrefix):
		return renewing(r, fleet)
	}
	return Decision{Verdict: Ignore, Reason: "it is of " + r.Username}
}

// joining decides about a request that was made with a credential of a machine.
func joining(r Request, fleet Fleet) Decision {
	deny := func(machine, format string, args ...any) Decision {
		return Decision{Verdict: Deny, Machine: machine, Reason: fmt.Sprintf(format, args...)}
	}
	if len(r.CredentialIDs) != 1 || r.CredentialIDs[0] == "" {
		return deny("", "it must be made with one credential that has an ID, and was made with %d", len(r.CredentialIDs))
	}
	m, known := fleet.ByCredential(r.CredentialIDs[0])
	switch {
	case !known && r.Age < patience:
		return Decision{Verdict: Wait, Reason: "no machine is known yet that its credential was made for"}
	case !known:
		return deny("", "its credential was made for no machine that exists, or a newer one was made since")
	case r.Signer != certificatesv1.KubeAPIServerClientKubeletSignerName:
		return deny(m.Name, "it is for signer %s, and machines ask for %s alone", r.Signer, certificatesv1.KubeAPIServerClientKubeletSignerName)
	}
	if err := check(r, m.NodeName); err != nil {
		return deny(m.Name, "%v", err)
	}
	counted := m.LastRequest != "" && m.LastRequest == r.UID
	switch {
	case m.Deleting:
		return deny(m.Name, "the HostMachine is being deleted")
	case m.CredentialEpoch != m.Epoch:
		return deny(m.Name, "its credential is of epoch %d, and epoch %d is assigned", m.CredentialEpoch, m.Epoch)
	case m.Stage == After:
		return deny(m.Name, "the machine does not boot or join")
	case m.Approved >= lifecycle.MostCertificates && !counted:
		return deny(m.Name, "%d certificates were approved for epoch %d, which is the limit", m.Approved, m.Epoch)
	case m.Stage == Before && r.Age < patience:
		return Decision{Verdict: Wait, Machine: m.Name, Reason: "the machine has not reported that it boots"}
	case m.Stage == Before:
		return deny(m.Name, "the machine does not boot or join")
	}
	return Decision{Verdict: Approve, Machine: m.Name, Count: !counted, Reason: fmt.Sprintf("the machine joins, epoch %d", m.Epoch)}
}

// renewing decides about a request that a Node made. One that is not for its own certificate is left
// to others, as those of Nodes that are no machine's.
func renewing(r Request, fleet Fleet) Decision {
	name := strings.TrimPrefix(r.Username, nodePrefix)
	m, known := fleet.ByNode(name)
	if !known || m.Deleting {
		return Decision{Verdict: Ignore, Reason: "its Node belongs to no HostMachine"}
	}
	if err := check(r, m.NodeName); err != nil {
		return Decision{Verdict: Ignore, Machine: m.Name, Reason: err.Error()}
	}
	return Decision{Verdict: Approve, Machine: m.Name, Reason: "the Node renews its certificate"}
}

// check returns what is wrong with the certificate that a request asks for, if it is to be that of
// the kubelet of this Node.
func check(r Request, node string) error {
	if err := checkUsages(r.Usages); err != nil {
		return err
	}
	block, rest := pem.Decode(r.PEM)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(block.Headers) > 0 || len(bytes.TrimSpace(rest)) > 0 {
		return errors.New("it must hold one certificate request and nothing else")
	}
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return fmt.Errorf("its certificate request cannot be read: %w", err)
	}
	if err := asked.CheckSignature(); err != nil {
		return fmt.Errorf("its certificate request is not signed with its key: %w", err)
	}
	switch subject := asked.Subject; {
	case subject.CommonName != nodePrefix+node:
		return fmt.Errorf("it asks for common name %q, and its Node has %q", subject.CommonName, nodePrefix+node)
	case !slices.Equal(subject.Organization, []string{nodesGroup}):
		return fmt.Errorf("it asks for organizations %q, and a Node is of %q alone", subject.Organization, nodesGroup)
	case len(subject.Names) != 2: // those two
		return errors.New("its subject has more than a common name and an organization")
	case len(asked.DNSNames)+len(asked.EmailAddresses)+len(asked.IPAddresses)+len(asked.URIs) > 0:
		return errors.New("it asks for alternative names, and a client has none")
	}
	for _, e := range asked.Extensions {
		if !e.Id.Equal(oidKeyUsage) {
			return fmt.Errorf("it asks for extension %v, and a client has the key usage alone", e.Id)
		}
	}
	return nil
}

// checkUsages requires digital signature and client auth; key encipherment may be among them, as old
// kubelets and RSA keys have it.
func checkUsages(usages []certificatesv1.KeyUsage) error {
	required := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
	for _, u := range required {
		if !slices.Contains(usages, u) {
			return fmt.Errorf("it does not ask for usage %q", u)
		}
	}
	for i, u := range usages {
		if !slices.Contains(required, u) && u != certificatesv1.UsageKeyEncipherment {
			return fmt.Errorf("it asks for usage %q, which a client does not have", u)
		}
		if slices.Contains(usages[:i], u) {
			return fmt.Errorf("it asks for usage %q twice", u)
		}
	}
	return nil
}
