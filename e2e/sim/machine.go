package sim

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/driver"
	"nstance.dev/server/pki"
	"nstance.dev/server/refusal"
	"nstance.dev/server/shard"
)

// machine is a VM with an agent in it, as far as a shard can tell: it registers
// with the nonce out of its user data, holds a stream open, reports, and takes
// what it is sent.
type machine struct {
	w     *world
	id    identity.ID
	name  string // group/number
	group groupID
	nonce string
	key   ed25519.PrivateKey

	mu        sync.Mutex
	off       context.CancelFunc // pulls the plug
	leaving   bool               // its agent says goodbye
	peer      identity.Peer      // zero until registered
	mute      bool               // connected, and silent
	notice    time.Time          // when the provider takes the VM back; zero: it does not
	hash      string             // of the files in force
	files     map[string]*nstancev1.FileStatus
	staged    map[string]*nstancev1.FileStatus
	stream    *stream // nil: not connected
	lastHeard time.Time
}

// groupID names a group.
type groupID struct{ tenant, name string }

func (g groupID) String() string {
	if g.tenant == identity.DefaultTenant {
		return g.name
	}
	return g.tenant + "." + g.name
}

// end is the machine's end of its connections.
func (m *machine) end() string { return m.name }

// boot is what the cloud calls when a VM runs.
func (w *world) boot(req driver.CreateRequest) {
	m := w.meet(req)
	w.switched(req.InstanceID, driver.Running)
	w.mu.Lock()
	barren := w.barren[m.group]
	w.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	ctx, off := context.WithCancel(w.ctx)
	m.off, m.stream = off, nil
	if barren || w.weather.hits(agentNever, m.name) {
		return
	}
	wait := w.dice.between(500*time.Millisecond, 3*time.Second, m.name, "boots")
	if w.weather.hits(agentSlow, m.name) {
		wait += w.dice.between(0, 2*time.Minute, m.name, "slow")
	}
	w.calls.Go(func() {
		if pause(ctx, wait) == nil {
			m.run(ctx)
		}
	})
}

// meet is the agent of a VM, which is made with it.
func (w *world) meet(req driver.CreateRequest) *machine {
	name := w.nameOf(req.InstanceID)
	w.mu.Lock()
	defer w.mu.Unlock()
	if m := w.machines[req.InstanceID]; m != nil {
		return m
	}
	key, err := pki.NewPrivateKey(nil)
	if err != nil {
		panic(err)
	}
	m := &machine{
		w: w, id: req.InstanceID, group: groupID{req.Tenant, req.Group}, nonce: string(req.UserData), key: key,
		name: name, files: map[string]*nstancev1.FileStatus{}, staged: map[string]*nstancev1.FileStatus{},
	}
	w.machines[req.InstanceID] = m
	return m
}

// crash is what the cloud calls when a VM runs no more.
func (w *world) crash(id identity.ID) {
	if vm, there := w.cloud.Machine(id); there {
		w.switched(id, vm.Status)
	}
	w.mu.Lock()
	m := w.machines[id]
	w.mu.Unlock()
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.off != nil {
		m.off()
	}
	if w.guested(m.group.tenant) {
		w.guest.Down(id)
	}
}

// polite reports whether the agent said goodbye when it ended.
func (m *machine) polite() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leaving
}

func (m *machine) run(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		for _, b := range m.w.inOrder {
			p := b.running()
			if p == nil || ctx.Err() != nil {
				continue
			}
			if m.attend(ctx, p) {
				return
			}
		}
		_ = pause(ctx, m.w.dice.between(500*time.Millisecond, 4*time.Second, m.name, "retry", n))
	}
}

// attend registers and stays connected. True means that it has been told to go.
func (m *machine) attend(ctx context.Context, p *process) bool {
	m.mu.Lock()
	known := m.peer != (identity.Peer{})
	m.mu.Unlock()
	if !known {
		peer, err := m.w.register(m.end(), p, m.nonce, m.key)
		if err != nil {
			return refusedWith(err, refusal.PermissionDenied)
		}
		m.mu.Lock()
		m.peer = peer
		m.mu.Unlock()
		m.w.logf("%s registers", m.name)
		if m.w.guested(m.group.tenant) {
			m.w.guest.Up(m.id)
		}
	}
	return m.connect(ctx, p)
}

// register makes one registration call and reads the certificate.
func (w *world) register(from string, p *process, nonce string, key ed25519.PrivateKey) (identity.Peer, error) {
	public, err := pki.EncodePublicKey(key.Public().(ed25519.PublicKey))
	if err != nil {
		return identity.Peer{}, err
	}
	return call(w, from, p, "registers", func(ctx context.Context, r *shard.Term) (identity.Peer, error) {
		res, err := r.Agents().Register(ctx, netip.MustParseAddr("10.0.0.1"), &nstancev1.RegisterClientRequest{
			RegistrationNonceJwt: nonce, PublicKeyPem: public, Proof: identity.SignProof(key, nonce),
		})
		if err != nil {
			return identity.Peer{}, err
		}
		w.checkCertificate(nonce, key) // it exists, whether its owner hears of it or not
		block, _ := pem.Decode(res.ClientCertificatePem)
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return identity.Peer{}, err
		}
		return identity.PeerFromCertificate(cert)
	})
}

// connect holds one stream for as long as it lasts.
func (m *machine) connect(ctx context.Context, p *process) (told bool) {
	if m.w.net.cut(m.end(), p.box.name) || pause(ctx, m.w.net.delay(m.name+" connects")) != nil {
		_ = pause(ctx, patience)
		return false
	}
	term, err := p.shard.Term()
	if err != nil || p.stuck() {
		return false
	}
	s := newStream(ctx, m.w, m, p)
	verdict := make(chan error, 1)
	m.w.calls.Go(func() {
		peer := m.peerNow()
		err := term.Agents().Connect(&peer, s)
		if p.may(s.server) == nil {
			s.down.send(nil, true)
		}
		s.endServer()
		verdict <- err
	})
	m.attach(s)
	defer m.attach(nil)
	m.w.calls.Go(func() { m.talk(s) })
	for {
		msg, err := s.down.recv(s.agent)
		if err != nil {
			break
		}
		m.take(msg)
	}
	s.endAgent()
	if ctx.Err() != nil {
		return false // the server finds out by a goodbye, or by what it does not hear
	}
	s.endServer()
	select {
	case err := <-verdict:
		return refusedWith(err, refusal.PermissionDenied)
	default:
		return false
	}
}

func (m *machine) attach(s *stream) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stream = s
}

func (m *machine) peerNow() identity.Peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.peer
}

// talk says hello and then reports until the stream ends.
func (m *machine) talk(s *stream) {
	s.up.send(&nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Hello{
		Hello: &nstancev1.Hello{InstanceId: m.id.String(), AgentVersion: "sim"},
	}}, false)
	for count := int64(1); ; count++ {
		if m.w.weather.hits(netBreak, s.up.what, count) {
			s.end()
			return
		}
		if msg := m.report(count); msg != nil {
			s.up.send(msg, false)
		}
		if pause(s.agent, m.w.dice.between(m.w.interval*19/20, m.w.interval, s.up.what, count)) != nil {
			if m.polite() {
				var none *nstancev1.AgentMessage
				s.up.send(none, true)
			}
			return
		}
	}
}

// report is what the agent says of itself, nil while it hangs.
func (m *machine) report(count int64) *nstancev1.AgentMessage {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mute {
		return nil
	}
	r := &nstancev1.HealthReport{InstanceId: m.id.String(), Count: count, ConfigHash: m.hash, Files: map[string]*nstancev1.FileStatus{}}
	for name, status := range m.files {
		r.Files[name] = status
	}
	if !m.notice.IsZero() {
		r.TerminationNotice = &nstancev1.TerminationNotice{Action: "terminate", Deadline: timestamppb.New(m.notice)}
	}
	return &nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Report{Report: r}}
}

// take does what the server says: files are put aside until they are committed.
func (m *machine) take(msg *nstancev1.ServerMessage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lastHeard = time.Now()
	switch v := msg.GetMessage().(type) {
	case *nstancev1.ServerMessage_File:
		m.staged[v.File.Filename] = &nstancev1.FileStatus{State: &nstancev1.FileStatus_LastModified{LastModified: v.File.LastModified}}
	case *nstancev1.ServerMessage_Commit:
		for name, status := range m.staged {
			m.files[name] = status
		}
		m.staged, m.hash = map[string]*nstancev1.FileStatus{}, v.Commit.ConfigHash
	}
}

// connected reports whether the agent's stream is up at the process.
func (m *machine) connected(p *process) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stream != nil && m.stream.p == p && m.stream.agent.Err() == nil && m.stream.server.Err() == nil
}

// told reports whether the provider has said that it takes the VM back. A VM that
// never booted has no machine, and was told nothing.
func (m *machine) told() bool {
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.notice.IsZero()
}

// doomed reports whether somebody has to find out yet that the machine is to be
// replaced.
func (m *machine) doomed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mute || !m.notice.IsZero()
}

// restart ends the agent with or without a goodbye, and starts it again.
func (m *machine) restart(polite bool) {
	m.mu.Lock()
	if m.off == nil || m.peer == (identity.Peer{}) {
		m.mu.Unlock()
		return
	}
	m.leaving = polite
	m.off()
	ctx, off := context.WithCancel(m.w.ctx)
	m.off = off
	m.mu.Unlock()
	m.w.calls.Go(func() {
		if pause(ctx, m.w.dice.between(time.Second, 5*time.Second, m.name, "restart", m.w.weather.number(m.name+" restart"))) != nil {
			return
		}
		m.mu.Lock()
		m.leaving = false
		m.mu.Unlock()
		m.run(ctx)
	})
}

func (m *machine) String() string { return fmt.Sprintf("%s (%s)", m.name, m.id) }
