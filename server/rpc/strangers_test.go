package rpc_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/conns"
)

// silent is a client that keeps its connection open, answers pings, and makes no call.
type silent struct {
	ended chan struct{} // closed once the server has closed the connection
}

// silence connects a silent client.
func (w *world) silence(l net.Listener, conf *tls.Config) *silent {
	w.t.Helper()
	raw, err := w.raw(w.t.Context(), l)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = raw.Close() })
	s := &silent{ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		conf.NextProtos = []string{"h2"}
		conn := tls.Client(raw, conf)
		if conn.HandshakeContext(context.WithoutCancel(w.t.Context())) != nil {
			return
		}
		if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
			return
		}
		frames := http2.NewFramer(conn, conn)
		err := frames.WriteSettings()
		for err == nil {
			var f http2.Frame
			if f, err = frames.ReadFrame(); err != nil {
				return
			}
			switch f := f.(type) {
			case *http2.PingFrame:
				if !f.IsAck() {
					err = frames.WritePing(true, f.Data)
				}
			case *http2.SettingsFrame:
				if !f.IsAck() {
					err = frames.WriteSettingsAck()
				}
			}
		}
	}()
	return s
}

func (s *silent) open() bool {
	synctest.Wait()
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// TestS22_ASilentStrangerGoes: whoever connects to the registration port and says nothing is
// gone within moments, however well it answers pings.
func TestS22_ASilentStrangerGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOptions{pipes: true})
		s := w.silence(w.registration, w.clientTLS())
		time.Sleep(10 * time.Second)
		if !s.open() {
			t.Error("a connection ends before a slow client could have registered")
		}
		time.Sleep(10 * time.Second)
		if s.open() {
			t.Error("a connection that says nothing is open after 20s")
		}
	})
}

// TestS22_SilentStrangersKeepNobodyOut: more of them than the listener has connections, and an
// agent with its nonce, and a known operator, are let in all the same.
func TestS22_SilentStrangersKeepNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOptions{pipes: true, budget: conns.Budget{Registration: 8, Operator: 8, Agent: 8}})
		op := w.operatorOf("default")
		vm := w.machine(op)
		var strangers []*silent
		for range 40 {
			strangers = append(strangers, w.silence(w.registration, w.clientTLS()))
			w.silence(w.operator, w.clientTLS())
			synctest.Wait()
		}
		left := 0
		for _, s := range strangers {
			if s.open() {
				left++
			}
		}
		if left > 8 {
			t.Errorf("%d strangers are connected, and 8 connections are allowed", left)
		}
		if _, err := w.anonymous().RegisterAgent(t.Context(), request(t, string(vm.UserData), newKey(t))); err != nil {
			t.Errorf("an agent with its nonce: %v", err)
		}
		if _, err := op.ListGroups(t.Context(), &emptypb.Empty{}); err != nil {
			t.Errorf("an operator that was connected before: %v", err)
		}
		if _, err := w.operatorOf("default").ListGroups(t.Context(), &emptypb.Empty{}); err != nil {
			t.Errorf("an operator that comes then: %v", err)
		}
	})
}

// TestS22_OneCertificateHasSoManyConnections: of one operator's connections the oldest goes.
func TestS22_OneCertificateHasSoManyConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOptions{pipes: true})
		other, op := w.operatorOf("b"), w.operatorFor("default", 0)
		if _, err := other.ListGroups(t.Context(), &emptypb.Empty{}); err != nil {
			t.Fatal(err)
		}
		conf := w.clientTLS(op.cert)
		var all []*silent
		for range 70 {
			all = append(all, w.silence(w.operator, conf.Clone()))
			synctest.Wait()
		}
		open := 0
		for _, s := range all {
			if s.open() {
				open++
			}
		}
		if open != 64 {
			t.Errorf("one certificate has %d connections, want 64", open)
		}
		if !all[69].open() || all[0].open() {
			t.Error("another one than the oldest went")
		}
		if _, err := other.ListGroups(t.Context(), &emptypb.Empty{}); err != nil {
			t.Errorf("another operator: %v", err)
		}
	})
}

// TestF48_CallsAtFullSpeedEndTheConnection: a connection that makes calls faster than any client
// of ours ends, and others go on.
func TestF48_CallsAtFullSpeedEndTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOptions{pipes: true})
		op := w.operatorOf("default")
		if _, err := op.ListGroups(t.Context(), &emptypb.Empty{}); err != nil {
			t.Fatal(err)
		}
		raw, err := w.raw(t.Context(), w.registration)
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		conf := w.clientTLS()
		conf.NextProtos = []string{"h2"}
		conn := tls.Client(raw, conf)
		if err := conn.HandshakeContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		frames := http2.NewFramer(conn, conn)
		go func() { // what the server says is of no interest
			for {
				if _, err := frames.ReadFrame(); err != nil {
					return
				}
			}
		}()
		_, err = conn.Write([]byte(http2.ClientPreface))
		if err == nil {
			err = frames.WriteSettings()
		}
		resets := 0
		for ; err == nil && resets < 5000; resets++ {
			id := uint32(2*resets + 1)
			err = frames.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: callHeaders(t), EndHeaders: true})
			if err == nil {
				err = frames.WriteRSTStream(id, http2.ErrCodeCancel)
			}
		}
		if err == nil {
			t.Errorf("%d calls were made and reset at once, and the connection is still open", resets)
		}
		if _, err := op.ListGroups(t.Context(), &emptypb.Empty{}); err != nil {
			t.Errorf("an operator meanwhile: %v", err)
		}
		_, err = w.anonymous().RegisterAgent(t.Context(), request(t, "x", newKey(t)))
		if code := status.Code(err); code != codes.PermissionDenied {
			t.Errorf("another caller of the same port: %v", err)
		}
	})
}

// callHeaders are the headers of a call, as HPACK writes them.
func callHeaders(t *testing.T) []byte {
	t.Helper()
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	enc.SetMaxDynamicTableSize(0)
	for _, f := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "server"},
		{Name: ":path", Value: nstancev1.RegistrationService_RegisterAgent_FullMethodName},
		{Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
	} {
		if err := enc.WriteField(f); err != nil {
			t.Fatal(err)
		}
	}
	return block.Bytes()
}
