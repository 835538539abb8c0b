package bench

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/driver/drivertest"
	"nstance.dev/server/pki"
)

// P2: health reports per second, on streams that are open.
//
// Ours: each of so many connected agents sends reports of a usual size as fast
// as the stream takes them. A report counts when the cache has stored it; that the
// last one of each agent has arrived ends the round.
//
// Peer: a bare gRPC server with default settings and the same TLS, that sends
// each message back on its stream: the same messages from as many clients, who
// send without waiting and count what comes back.
//
// Goal: 0.70 of the peer's rate.
const (
	reporters       = 40
	reportsEach     = 500
	filesInAReport  = 5
	coresInAReport  = 8
	portsInAReport  = 4
	reportsInARound = reporters * reportsEach
)

func measureReports(ctx context.Context, env Env) (rows []Row, err error) {
	s, err := newReportScene(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	least, err := interleave(ctx, env.Rounds, s.echo, s.ours)
	if err != nil {
		return nil, err
	}
	return []Row{{
		Name: "reports stored", Unit: "1/s", Ours: 1 / least[1], Floor: 1 / least[0],
		Against: "bare gRPC echo of the same message", Goal: AtLeast(0.70),
	}}, nil
}

// connectStream is the client's side of a stream of ours and of the echo's.
type connectStream = grpc.BidiStreamingClient[nstancev1.AgentMessage, nstancev1.ServerMessage]

type echoStream = grpc.BidiStreamingClient[nstancev1.AgentMessage, nstancev1.AgentMessage]

type reportScene struct {
	w       *world
	agents  []*agent
	streams []connectStream
	echoes  []echoStream
	sent    int64 // reports on each stream so far
	cleanup []func()
}

func newReportScene(ctx context.Context) (s *reportScene, err error) {
	nursery := newNursery()
	s = &reportScene{}
	if s.w, err = newWorld(ctx, drivertest.Options{OnCreate: nursery.boot}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.agents, err = nursery.raise(ctx, s.w, "web", reporters); err != nil {
		return nil, err
	}
	if err := s.w.registerAll(ctx, s.agents); err != nil {
		return nil, err
	}
	addr, stop, err := s.w.agentListener()
	if err != nil {
		return nil, err
	}
	s.cleanup = append(s.cleanup, stop)
	echoAddr, err := s.serveEcho()
	if err != nil {
		return nil, err
	}
	return s, s.connect(ctx, addr, echoAddr)
}

func (s *reportScene) serveEcho() (string, error) {
	cert, err := s.w.serverCert()
	if err != nil {
		return "", err
	}
	echo := newEchoServer(pki.MutualTLS(cert, s.w.roots, nil))
	s.cleanup = append(s.cleanup, echo.Stop)
	return serveOn(echo)
}

// connect opens the streams of every agent, and has them greeted.
func (s *reportScene) connect(ctx context.Context, addr, echoAddr string) error {
	for _, a := range s.agents {
		conn, err := s.dial(addr, a)
		if err != nil {
			return err
		}
		stream, err := connectAgent(ctx, conn, a.id)
		if err != nil {
			return err
		}
		go drain(stream)
		s.streams = append(s.streams, stream)
		if conn, err = s.dial(echoAddr, a); err != nil {
			return err
		}
		echo, err := openEcho(ctx, conn)
		if err != nil {
			return err
		}
		s.echoes = append(s.echoes, echo)
	}
	return nil
}

func (s *reportScene) dial(addr string, a *agent) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(clientTLS(s.w.roots, a.certificate)))
	if err == nil {
		s.cleanup = append(s.cleanup, func() { _ = conn.Close() })
	}
	return conn, err
}

func (s *reportScene) close() error {
	for _, stop := range s.cleanup {
		stop()
	}
	return s.w.close()
}

// connectAgent opens an agent's stream and waits until it is welcome.
func connectAgent(ctx context.Context, conn *grpc.ClientConn, id identity.ID) (connectStream, error) {
	stream, err := nstancev1.NewAgentServiceClient(conn).Connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := stream.Send(helloOf(id)); err != nil {
		return nil, err
	}
	if _, err := stream.Recv(); err != nil {
		return nil, fmt.Errorf("hello of %s: %w", id, err)
	}
	return stream, nil
}

func drain(stream connectStream) {
	for {
		if _, err := stream.Recv(); err != nil {
			return
		}
	}
}

// ours returns the seconds from one report stored to the next.
func (s *reportScene) ours(ctx context.Context) (float64, error) {
	first := s.sent
	s.sent += reportsEach
	started := time.Now()
	var g errgroup.Group
	for i, stream := range s.streams {
		id := s.agents[i].id
		msg := reportOf(id, s.agents[i].hash)
		g.Go(func() error {
			for n := range int64(reportsEach) {
				msg.GetReport().Count = first + n + 1
				if err := stream.Send(msg); err != nil {
					return fmt.Errorf("report of %s: %w", id, err)
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	err := eventually(ctx, "the last reports", func() bool {
		for _, a := range s.agents {
			if h, _ := s.w.cache.Health(a.id); h.Count != s.sent {
				return false
			}
		}
		return true
	})
	return time.Since(started).Seconds() / reportsInARound, err
}

// echo returns the seconds from one answer to the next.
func (s *reportScene) echo(context.Context) (float64, error) {
	started := time.Now()
	var g errgroup.Group
	for i, stream := range s.echoes {
		msg := reportOf(s.agents[i].id, s.agents[i].hash)
		g.Go(func() error {
			for n := range int64(reportsEach) {
				msg.GetReport().Count = n + 1
				if err := stream.Send(msg); err != nil {
					return fmt.Errorf("echo: %w", err)
				}
			}
			return nil
		})
		g.Go(func() error {
			for range reportsEach {
				if _, err := stream.Recv(); err != nil {
					return fmt.Errorf("echo: %w", err)
				}
			}
			return nil
		})
	}
	err := g.Wait()
	return time.Since(started).Seconds() / reportsInARound, err
}

func helloOf(id identity.ID) *nstancev1.AgentMessage {
	return &nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Hello{Hello: &nstancev1.Hello{
		InstanceId: id.String(), AgentVersion: "1.0.0", BootId: "6f1f2a2e-8c3b-4f0a-9a55-6f3f7f3a0001",
	}}}
}

// reportOf is a report as an agent of a machine with a few cores and files sends
// it that runs what it should, by its hash.
func reportOf(id identity.ID, hash string) *nstancev1.AgentMessage {
	m := &nstancev1.Metrics{
		CpuUsage: proto.Float64(12.5), MemoryUsage: proto.Float64(43.75), EbpfCounters: map[uint32]uint64{},
		NetworkInterface: &nstancev1.NetworkInterface{
			InterfaceName: "eth0", RxBytes: proto.Uint64(8_123_456_789), TxBytes: proto.Uint64(912_345_678),
			RxPackets: proto.Uint64(6_123_456), TxPackets: proto.Uint64(4_123_456), RxDrops: proto.Uint64(12), TxDrops: proto.Uint64(0),
		},
		ConntrackCount: proto.Uint64(1200), ConntrackMax: proto.Uint64(262_144),
	}
	for i := range coresInAReport {
		m.CpuCoreUsage = append(m.CpuCoreUsage, 10+float64(i))
	}
	for i := range portsInAReport {
		m.EbpfCounters[uint32(8080+i)] = uint64(10 * i)
	}
	r := &nstancev1.HealthReport{
		Version: "1.0.0", InstanceId: id.String(), Timestamp: timestamppb.Now(), Uptime: "72h3m0.5s",
		Metrics: m, Files: map[string]*nstancev1.FileStatus{}, ConfigHash: hash,
	}
	for i := range filesInAReport {
		r.Files[fmt.Sprintf("kubelet-%d.crt", i)] = &nstancev1.FileStatus{
			State: &nstancev1.FileStatus_LastModified{LastModified: timestamppb.Now()},
		}
	}
	return &nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Report{Report: r}}
}

// echoMethod is the one call of the peer.
const echoMethod = "/bench.Echo/Echo"

// newEchoServer is a gRPC server without any settings that sends back what it gets.
func newEchoServer(conf *tls.Config) *grpc.Server {
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(conf)))
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "bench.Echo", HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{StreamName: "Echo", ServerStreams: true, ClientStreams: true, Handler: echoAll}},
	}, nil)
	return s
}

func echoAll(_ any, stream grpc.ServerStream) error {
	for {
		msg := new(nstancev1.AgentMessage)
		if err := stream.RecvMsg(msg); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := stream.SendMsg(msg); err != nil {
			return err
		}
	}
}

func openEcho(ctx context.Context, conn *grpc.ClientConn) (echoStream, error) {
	desc := &grpc.StreamDesc{StreamName: "Echo", ServerStreams: true, ClientStreams: true}
	stream, err := conn.NewStream(ctx, desc, echoMethod)
	if err != nil {
		return nil, err
	}
	return &grpc.GenericClientStream[nstancev1.AgentMessage, nstancev1.AgentMessage]{ClientStream: stream}, nil
}
