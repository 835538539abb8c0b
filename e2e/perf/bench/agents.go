package bench

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net/netip"
	"sync"

	"google.golang.org/grpc"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/driver"
	"nstance.dev/server/pki"
)

// agent is what a machine needs to register, and what it has afterwards.
type agent struct {
	id          identity.ID
	key         ed25519.PrivateKey
	hash        string // of what it runs, as its nonce says
	request     *nstancev1.RegisterClientRequest
	certificate *tls.Certificate // nil before
}

// newAgent does what an agent does before it speaks to anybody.
func newAgent(id identity.ID, nonce string) (*agent, error) {
	key, err := pki.NewPrivateKey(nil)
	if err != nil {
		return nil, err
	}
	public, err := pki.EncodePublicKey(key.Public().(ed25519.PublicKey))
	if err != nil {
		return nil, err
	}
	claims, err := identity.DecodeNonceUnverified(nonce)
	if err != nil {
		return nil, err
	}
	return &agent{id: id, key: key, hash: claims.ConfigHash, request: &nstancev1.RegisterClientRequest{
		RegistrationNonceJwt: nonce, PublicKeyPem: public, Proof: identity.SignProof(key, nonce),
		PrivateIpv4: "10.0.0.1", Hostname: "machine",
	}}, nil
}

// take keeps the certificate of an answer.
func (a *agent) take(answer *nstancev1.RegisterClientResponse) error {
	block, _ := pem.Decode(answer.ClientCertificatePem)
	if block == nil {
		return fmt.Errorf("agent %s: the answer has no certificate", a.id)
	}
	a.certificate = &tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: a.key}
	return nil
}

// register makes one registration on a connection of its own, as a machine does.
func (a *agent) register(ctx context.Context, addr string, opts ...grpc.DialOption) error {
	conn, err := grpc.NewClient("passthrough:///"+addr, opts...)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // the call is over, whatever it says
	answer, err := nstancev1.NewRegistrationServiceClient(conn).RegisterAgent(ctx, a.request)
	if err != nil {
		return fmt.Errorf("register %s: %w", a.id, err)
	}
	return a.take(answer)
}

// nursery collects the nonces of the machines that a cloud has booted.
type nursery struct {
	mu   sync.Mutex
	born map[string][]driver.CreateRequest // by group
}

func newNursery() *nursery { return &nursery{born: map[string][]driver.CreateRequest{}} }

// boot is for drivertest.Options.OnCreate.
func (n *nursery) boot(req driver.CreateRequest) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.born[req.Group] = append(n.born[req.Group], req)
}

func (n *nursery) count(group string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.born[group])
}

// raise makes a group of the size and returns its machines' agents, once all
// run and the shard has nothing left to do for them.
func (n *nursery) raise(ctx context.Context, w *world, group string, size int) ([]*agent, error) {
	if err := w.scale(ctx, group, size); err != nil {
		return nil, err
	}
	settled := func() bool { return n.count(group) == size && w.recorded(group) == size }
	if err := eventually(ctx, fmt.Sprintf("%d machines of group %s", size, group), settled); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	agents := make([]*agent, 0, size)
	for _, req := range n.born[group] {
		a, err := newAgent(req.InstanceID, string(req.UserData))
		if err != nil {
			return nil, err
		}
		agents = append(agents, a)
	}
	delete(n.born, group)
	return agents, nil
}

// recorded is how many instances of a group have a machine that the shard knows.
func (w *world) recorded(group string) int {
	n := 0
	for _, st := range w.term.Status().AllInstances() {
		if st.Group.Name == group && st.ProviderID != "" {
			n++
		}
	}
	return n
}

// registerAll registers agents without a network, for measures that begin later.
func (w *world) registerAll(ctx context.Context, agents []*agent) error {
	for _, a := range agents {
		answer, err := w.term.Agents().Register(ctx, netip.MustParseAddr("127.0.0.1"), a.request)
		if err != nil {
			return fmt.Errorf("register %s: %w", a.id, err)
		}
		if err := a.take(answer); err != nil {
			return err
		}
	}
	return nil
}
