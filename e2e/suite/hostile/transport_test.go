package hostile

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/e2e/env/box"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// ports are the listeners for clients, each with a call that it takes.
var ports = []struct {
	name, method string
	addr         func(*world) string
}{
	{"registration", nstancev1.RegistrationService_RegisterAgent_FullMethodName, func(w *world) string { return w.addrs.Registration }},
	{"agent", nstancev1.AgentService_Connect_FullMethodName, func(w *world) string { return w.addrs.Agent }},
	{"operator", nstancev1.OperatorService_ListGroups_FullMethodName, func(w *world) string { return w.addrs.Operator }},
}

// transports are ways to connect that are not TLS 1.3 with a certificate.
var transports = func() (rows []attempt) {
	for _, p := range ports {
		for _, v := range []struct {
			name    string
			version uint16
		}{{"TLS 1.0", tls.VersionTLS10}, {"TLS 1.1", tls.VersionTLS11}, {"TLS 1.2", tls.VersionTLS12}} {
			rows = append(rows, attempt{"F44", p.name + ": " + v.name, "handshake: protocol version not supported", func(t *testing.T, w *world) string {
				settings := w.as(w.genuine(t, asOperator).cert)
				settings.MinVersion, settings.MaxVersion = v.version, v.version
				return w.knock(t, p.addr(w), settings)
			}})
		}
		rows = append(rows, attempt{"F44", p.name + ": plain text", "closed", func(t *testing.T, w *world) string {
			return w.speak(t, p.addr(w), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
		}}, attempt{"F44", p.name + ": a request of HTTP without TLS", "closed", func(t *testing.T, w *world) string {
			return w.speak(t, p.addr(w), "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		}})
	}
	for _, p := range ports[1:] { // nobody is known at the first one, so nothing is taken up there
		rows = append(rows, attempt{"F43", p.name + ": a session that is taken up again", "a new handshake", func(t *testing.T, w *world) string {
			return w.resume(t, p.addr(w))
		}})
	}
	for _, as := range []door{asAgent, asOperator} {
		rows = append(rows, attempt{"F44", string(as) + ": no certificate", "handshake: certificate required", func(t *testing.T, w *world) string {
			return w.present(t, as, w.anonymous(), "")
		}})
	}
	return rows
}()

// speak sends bytes and returns whether the server says anything that is not an alert of
// TLS before it closes.
func (w *world) speak(t *testing.T, addr, text string) string {
	t.Helper()
	conn, err := dialFrom(w.source())(call(t), addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // the server has closed it
	if _, err := io.WriteString(conn, text); err != nil {
		return "closed"
	}
	_ = conn.SetReadDeadline(time.Now().Add(box.CallTimeout)) // fails for closed ones only
	answer, err := io.ReadAll(io.LimitReader(conn, 1<<10))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "left open"
	case len(answer) > 0 && answer[0] != 21: // the type of alerts
		return "answered: " + string(answer)
	}
	return "closed"
}

// resume connects twice with one cache of sessions.
func (w *world) resume(t *testing.T, addr string) string {
	t.Helper()
	settings := w.as(w.genuine(t, asOperator).cert)
	settings.ClientSessionCache, settings.NextProtos = tls.NewLRUClientSessionCache(4), []string{"h2"}
	for range 2 {
		raw, err := dialFrom(w.source())(call(t), addr)
		if err != nil {
			t.Fatal(err)
		}
		conn := tls.Client(raw, settings)
		if err := conn.HandshakeContext(call(t)); err != nil {
			_ = raw.Close() // the handshake's error says it
			return "handshake: " + err.Error()
		}
		resumed := conn.ConnectionState().DidResume
		_, err = conn.Read(make([]byte, 1)) // tickets come before
		_ = conn.Close()                    // it was for that byte
		switch {
		case resumed:
			return "taken up again"
		case err != nil:
			return "read: " + err.Error()
		}
	}
	return "a new handshake"
}

// wrongDoors are calls of services that are not for the caller.
func wrongDoors() (rows []attempt) {
	for _, m := range nstancev1.OperatorService_ServiceDesc.Methods {
		rows = append(rows, wrongCaller(m.MethodName, false))
	}
	for _, s := range nstancev1.OperatorService_ServiceDesc.Streams {
		rows = append(rows, wrongCaller(s.StreamName, true))
	}
	rows = append(rows, attempt{"F43", "an operator connects as an agent", wrongRole, func(t *testing.T, w *world) string {
		return outline(w.present(t, asAgent, w.as(w.genuine(t, asOperator).cert), "opr068a3cp3thz5z2mv1gejwftabc"))
	}})
	for _, p := range ports {
		for _, method := range []string{
			"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
			"/grpc.channelz.v1.Channelz/GetTopChannels", "/grpc.admin.v1.Admin/Get", "/nstance.v1.Debug/Dump", "/", "//",
		} {
			rows = append(rows, notOffered(p.name, method, p.addr))
		}
		for _, other := range ports {
			if other.name != p.name {
				rows = append(rows, notOffered(p.name, other.method, p.addr))
			}
		}
	}
	return rows
}

// wrongCaller is a call of an operator's that an agent makes.
func wrongCaller(method string, stream bool) attempt {
	return attempt{"F43", "an agent calls " + method, wrongRole, func(t *testing.T, w *world) string {
		conn := w.dial(t, w.addrs.Operator, w.as(w.genuine(t, asAgent).cert))
		return outline(said(invoke(call(t), conn, "/"+nstancev1.OperatorService_ServiceDesc.ServiceName+"/"+method, stream)))
	}}
}

// notOffered is a call of a service that a port does not have, by somebody who may call.
func notOffered(port, method string, addr func(*world) string) attempt {
	return attempt{"F43", port + ": " + method, "Unimplemented", func(t *testing.T, w *world) string {
		as := asOperator
		if port == "agent" {
			as = asAgent
		}
		err := invoke(call(t), w.dial(t, addr(w), w.as(w.genuine(t, as).cert)), method, true)
		return said(err)[:min(len("Unimplemented"), len(said(err)))]
	}}
}

// invoke makes any call with a message that is empty.
func invoke(ctx context.Context, conn *grpc.ClientConn, method string, stream bool) error {
	if !stream {
		return conn.Invoke(ctx, method, &emptypb.Empty{}, &emptypb.Empty{})
	}
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	// An error of these means that the stream has ended; RecvMsg says why.
	_ = s.SendMsg(&emptypb.Empty{})
	_ = s.CloseSend()
	return s.RecvMsg(&emptypb.Empty{})
}
