package shard

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/driver"
	"nstance.dev/server/pki"
	"nstance.dev/server/refusal"
	"nstance.dev/server/retry"
)

// machine is a VM with an agent in it, as far as a shard can tell: it registers
// with the nonce out of its user data, keeps its stream open and reports.
type machine struct {
	w     *world
	id    identity.ID
	nonce string
	key   ed25519.PrivateKey

	off context.CancelFunc // pulls the plug

	mu   sync.Mutex
	peer identity.Peer                // zero until registered
	mute bool                         // connected, and silent
	note *nstancev1.TerminationNotice // in each report from now on
	bye  func()                       // half-closes the stream; nil without one

	binding *nstancev1.ClusterReport // what it last did about a cluster; nil: nothing
}

// boot is what the cloud calls when a VM runs.
func (w *world) boot(req driver.CreateRequest) {
	if w.dead.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.machines[req.InstanceID]
	if m == nil {
		key, err := pki.NewPrivateKey(nil)
		if err != nil {
			panic(err)
		}
		m = &machine{w: w, id: req.InstanceID, nonce: string(req.UserData), key: key}
		w.machines[req.InstanceID] = m
	}
	ctx, off := context.WithCancel(w.ctx)
	m.off = off
	w.agents.Go(func() { m.run(ctx) })
}

// crash is what the cloud calls when a VM runs no more.
func (w *world) crash(id identity.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := w.machines[id]; m != nil {
		m.off()
	}
}

func (m *machine) run(ctx context.Context) {
	for ctx.Err() == nil {
		if r, err := m.w.shard().Term(); err == nil {
			if m.live(ctx, r) {
				return
			}
		}
		_ = retry.Wait(ctx, time.Second)
	}
}

// live registers and stays connected; true means that it has been told to go.
func (m *machine) live(ctx context.Context, r *Term) (done bool) {
	if _, err := m.identity(); err != nil {
		if err := m.register(r); err != nil {
			return refusedWith(err, refusal.PermissionDenied)
		}
	}
	peer, _ := m.identity()
	s := newPipe(ctx)
	defer s.cut()
	m.mu.Lock()
	m.bye = s.halfClose
	m.mu.Unlock()
	go m.talk(s)
	if m.w.opts.Joins {
		go m.obey(s)
	}
	err := r.Agents().Connect(&peer, s)
	return err == nil || refusedWith(err, refusal.PermissionDenied)
}

func (m *machine) identity() (identity.Peer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.peer == (identity.Peer{}) {
		return m.peer, errors.New("not registered")
	}
	return m.peer, nil
}

func (m *machine) register(r *Term) error {
	peer, err := register(r, m.nonce, m.key)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.peer = peer
	return nil
}

// register makes one registration call and reads the certificate.
func register(r *Term, nonce string, key ed25519.PrivateKey) (identity.Peer, error) {
	public, err := pki.EncodePublicKey(key.Public().(ed25519.PublicKey))
	if err != nil {
		return identity.Peer{}, err
	}
	res, err := r.Agents().Register(r.Context(), netip.MustParseAddr("10.0.0.1"), &nstancev1.RegisterClientRequest{
		RegistrationNonceJwt: nonce, PublicKeyPem: public, Proof: identity.SignProof(key, nonce),
	})
	if err != nil {
		return identity.Peer{}, err
	}
	block, _ := pem.Decode(res.ClientCertificatePem)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return identity.Peer{}, err
	}
	return identity.PeerFromCertificate(cert)
}

// talk says hello and then reports until the stream ends.
func (m *machine) talk(s *pipe) {
	if !s.say(m.hello()) || m.w.opts.Joins && !s.say(clusterReport(m.bound())) {
		return
	}
	for count := int64(1); ; count++ {
		m.mu.Lock()
		mute, rep := m.mute, report(m.id, count)
		rep.GetReport().TerminationNotice = m.note
		m.mu.Unlock()
		if !mute && !s.say(rep) {
			return
		}
		if retry.Wait(s.ctx, m.w.interval()) != nil {
			return
		}
	}
}

// silence stops the reports and leaves the stream open.
func (m *machine) silence() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mute = true
}

// announce has it report that the provider takes the machine back after so long.
func (m *machine) announce(action string, after time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.note = &nstancev1.TerminationNotice{Action: action, Deadline: timestamppb.New(time.Now().Add(after))}
}

// speak has it report again.
func (m *machine) speak() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mute = false
}

func hello(id identity.ID) *nstancev1.AgentMessage {
	return &nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Hello{Hello: &nstancev1.Hello{InstanceId: id.String()}}}
}

func report(id identity.ID, count int64) *nstancev1.AgentMessage {
	return &nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Report{
		Report: &nstancev1.HealthReport{InstanceId: id.String(), Count: count},
	}}
}

// pipe is an agent's stream without a network.
type pipe struct {
	ctx  context.Context
	cut  context.CancelFunc
	in   chan *nstancev1.AgentMessage
	out  chan *nstancev1.ServerMessage
	eof  chan struct{}
	once sync.Once
}

func newPipe(ctx context.Context) *pipe {
	ctx, cut := context.WithCancel(ctx)
	return &pipe{ctx: ctx, cut: cut, in: make(chan *nstancev1.AgentMessage),
		out: make(chan *nstancev1.ServerMessage, 64), eof: make(chan struct{})}
}

// say sends one message of the agent; false: the stream has ended.
func (p *pipe) say(msg *nstancev1.AgentMessage) bool {
	select {
	case p.in <- msg:
		return true
	case <-p.eof:
		return false
	case <-p.ctx.Done():
		return false
	}
}

func (p *pipe) halfClose() { p.once.Do(func() { close(p.eof) }) }

func (p *pipe) Context() context.Context { return p.ctx }

func (p *pipe) Recv() (*nstancev1.AgentMessage, error) {
	select {
	case msg := <-p.in:
		return msg, nil
	case <-p.eof:
		return nil, io.EOF
	case <-p.ctx.Done():
		return nil, p.ctx.Err()
	}
}

func (p *pipe) Send(msg *nstancev1.ServerMessage) error {
	select {
	case p.out <- msg:
		return nil
	case <-p.ctx.Done():
		return p.ctx.Err()
	default:
		return nil // an agent that does not look
	}
}

func refusedWith(err error, code refusal.Code) bool {
	var refused *refusal.Error
	return errors.As(err, &refused) && refused.Code == code
}
