package bench

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/operatorapi"
	"nstance.dev/server/pki"
)

// P12: one changed file, pushed to ten thousand agents.
//
// Ours: the agents of one group are connected, and have the file that their
// template names. A variable of the group changes, and with it the file; the time
// from the UpsertGroup until the last agent has received file and commit. Each agent
// reports within a second afterwards, as agents do.
//
// Floor: a bare gRPC server on which as many have a stream open, and which sends each
// a file and a commit of the same sizes, sixteen at a time. The same bytes go both ways:
// its clients report too, within the same second, and it decodes what they say and drops it.
//
// Goal: 1.5 times the floor.
//
// Each server runs in a process of its own, and its clients in a second one.
const (
	pushAgents  = 10_000
	pushedFile  = "settings.conf"
	pushedBytes = 2 << 10
	senders     = 16
	// reportWithin is how long agents take to report what they have applied. The next
	// round begins after that.
	reportWithin = time.Second
)

// The servers of the measure.
const (
	serverPush      = "push"
	serverBroadcast = "broadcast"
)

var pushConfiguration = strings.Replace(configuration, `"kind": "vmx",`,
	`"kind": "vmx", "files": {"`+pushedFile+`": {"kind": "string", "template": "{{ .Vars.text }}"}}, "vars": {"text": "first"},`, 1)

func measurePush(ctx context.Context, env Env) (rows []Row, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	var servers []*pushServer
	defer func() {
		for _, s := range servers {
			err = errors.Join(err, s.end())
		}
	}()
	for _, kind := range []string{serverBroadcast, serverPush} {
		s, err := startPushServer(ctx, kind)
		if err != nil {
			return nil, err
		}
		servers = append(servers, s)
	}
	least, err := interleave(ctx, env.Rounds, servers[0].round, servers[1].round)
	if err != nil {
		return nil, err
	}
	return []Row{{
		Name: "a file to 10,000 agents", Unit: "s", Ours: least[1], Floor: least[0],
		Against: "bare gRPC broadcast, same bytes both ways", Goal: AtMost(1.5),
	}}, nil
}

// pushServer is the process of one of the servers, which makes a round for each
// line that it reads.
type pushServer struct {
	*program
	in io.WriteCloser
}

func startPushServer(ctx context.Context, kind string) (*pushServer, error) {
	cmd, err := child(ctx, "server", kind)
	if err != nil {
		return nil, err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &pushServer{program: &program{cmd: cmd, said: bufio.NewReader(out)}, in: in}, nil
}

func (s *pushServer) end() error { return errors.Join(s.in.Close(), s.program.end(unix.SIGTERM)) }

// round returns the seconds of one round.
func (s *pushServer) round(context.Context) (seconds float64, err error) {
	if _, err := s.in.Write([]byte("go\n")); err != nil {
		return 0, err
	}
	line, err := s.said.ReadBytes('\n')
	if err != nil {
		return 0, fmt.Errorf("no time of a round: %w", err)
	}
	return seconds, json.Unmarshal(line, &seconds)
}

// servePush is the process of a server.
func servePush(ctx context.Context, kind string) error {
	nursery := newNursery()
	w, err := scene{cfg: pushConfiguration, cloud: drivertest.New(drivertest.Options{OnCreate: nursery.boot})}.begin(ctx)
	if err != nil {
		return err
	}
	agents, err := nursery.enrol(ctx, w, "web", pushAgents)
	if err != nil {
		return err
	}
	send, addr, err := w.sender(ctx, kind)
	if err != nil {
		return err
	}
	clients, err := startClients(ctx, kind, w.taskFor(addr, agents))
	if err != nil {
		return err
	}
	clear(agents)
	if kind == serverPush {
		err = clients.arrived() // the file that every new machine is sent
	}
	for in, n := bufio.NewScanner(os.Stdin), 0; err == nil && in.Scan(); n++ {
		time.Sleep(reportWithin + settling) // so that no report of the round before is still to come
		began := time.Now()
		if err = errors.Join(send(ctx, n), clients.arrived()); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(time.Since(began).Seconds())
		}
	}
	return errors.Join(err, clients.end(), w.close())
}

// sender starts a server, and returns how to send the nth content to everybody.
func (w *world) sender(ctx context.Context, kind string) (send func(ctx context.Context, n int) error, addr string, err error) {
	if kind == serverPush {
		addr, _, err = w.agentListener()
		return func(ctx context.Context, n int) error { return w.setText(ctx, "web", contentOf(n)) }, addr, err
	}
	cert, err := w.serverCert()
	if err != nil {
		return nil, "", err
	}
	var b broadcaster
	addr, err = serveOn(b.server(pki.MutualTLS(cert, w.roots, nil)))
	return func(_ context.Context, n int) error { return b.send(contentOf(n)) }, addr, err
}

// contentOf is the nth content of the file.
func contentOf(n int) string { return fmt.Sprintf("%0*d", pushedBytes, n) }

// setText changes the file of a group.
func (w *world) setText(ctx context.Context, group, text string) error {
	_, err := operatorapi.Of(w.term).UpsertGroup(ctx, tenantName, &nstancev1.UpsertGroupRequest{Key: group, Config: &nstancev1.GroupConfig{
		Vars: &nstancev1.StringMap{Values: map[string]string{"text": text}},
	}})
	return err
}

// broadcaster is the bare server.
type broadcaster struct {
	mu      sync.Mutex
	streams []grpc.ServerStream
}

func (b *broadcaster) server(conf *tls.Config) *grpc.Server {
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(conf)))
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "bench.Echo", HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{StreamName: "Echo", ServerStreams: true, ClientStreams: true, Handler: b.keep}},
	}, nil)
	return s
}

// keep keeps a stream open, after its first message.
func (b *broadcaster) keep(_ any, stream grpc.ServerStream) error {
	if err := stream.RecvMsg(new(nstancev1.AgentMessage)); err != nil {
		return err
	}
	b.mu.Lock()
	b.streams = append(b.streams, stream)
	b.mu.Unlock()
	if err := stream.SendMsg(new(nstancev1.ServerMessage)); err != nil {
		return err
	}
	for {
		if err := stream.RecvMsg(new(nstancev1.AgentMessage)); err != nil {
			return err
		}
	}
}

// send sends everybody a file and a commit.
func (b *broadcaster) send(content string) error {
	const hash = "sha256:0000000000000000000000000000000000000000000000000000000000000000"
	file := &nstancev1.ServerMessage{Message: &nstancev1.ServerMessage_File{File: &nstancev1.FileTransfer{
		Filename: pushedFile, Content: []byte(content), LastModified: timestamppb.Now(), ConfigHash: hash,
	}}}
	commit := &nstancev1.ServerMessage{Message: &nstancev1.ServerMessage_Commit{Commit: &nstancev1.Commit{ConfigHash: hash}}}
	var g errgroup.Group
	g.SetLimit(senders)
	for _, stream := range b.streams {
		g.Go(func() error { return errors.Join(stream.SendMsg(file), stream.SendMsg(commit)) })
	}
	return g.Wait()
}

// tally counts what arrives at clients of this process, and writes a byte whenever
// everybody got one more.
type tally struct {
	clients int64
	n       atomic.Int64
}

func (t *tally) arrived() {
	if t.n.Add(1)%t.clients == 0 {
		_, _ = os.Stdout.Write([]byte{1}) // who does not read has ended
	}
}

// receiver is what both kinds of streams can do.
type receiver interface {
	Recv() (*nstancev1.ServerMessage, error)
}

// listen takes what a server pushes, and says so after each commit: to the tally, and
// in a report to the server.
func (a idleAgent) listen(stream receiver, id identity.ID, all *tally, report func(*nstancev1.AgentMessage) error) {
	count := int64(1)
	for {
		msg, err := stream.Recv()
		if err != nil {
			return
		}
		commit := msg.GetCommit()
		if commit == nil {
			continue
		}
		all.arrived()
		count++
		done := reportOf(id, commit.GetConfigHash())
		done.GetReport().Count = count
		done.GetReport().Files = map[string]*nstancev1.FileStatus{pushedFile: {
			State: &nstancev1.FileStatus_LastModified{LastModified: timestamppb.Now()},
		}}
		time.Sleep(rand.N(reportWithin))
		if report(done) != nil {
			return
		}
	}
}

// hear opens a stream at the bare server, and listens.
func (a idleAgent) hear(ctx context.Context, conn *grpc.ClientConn, id identity.ID, all *tally) error {
	desc := &grpc.StreamDesc{StreamName: "Echo", ServerStreams: true, ClientStreams: true}
	raw, err := conn.NewStream(ctx, desc, echoMethod)
	if err != nil {
		return err
	}
	stream := &grpc.GenericClientStream[nstancev1.AgentMessage, nstancev1.ServerMessage]{ClientStream: raw}
	if err := stream.Send(helloOf(id)); err != nil {
		return err
	}
	if _, err := stream.Recv(); err != nil {
		return err
	}
	go a.listen(stream, id, all, stream.Send)
	return nil
}
