package hostile

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/e2e/env/box"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// isCut is what frames come to that no client of ours would send.
const isCut = "the connection is cut, and others are answered"

// frameFloods are those below the calls.
func frameFloods() []attempt {
	return []attempt{
		{"F48", "headers without an end", isCut, func(t *testing.T, w *world) string {
			return w.frames(t, w.addrs.Registration, w.anonymous(), 5000, func(f *http2.Framer, i int) error {
				part := bytes.Repeat([]byte{0x40, 1, 'a', 1, 'b'}, 50) // literal fields of the name a
				if i == 0 {
					return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: part})
				}
				return f.WriteContinuation(1, false, part)
			})
		}},
		{"F48", "pings at full speed", isCut, func(t *testing.T, w *world) string {
			return w.frames(t, w.addrs.Registration, w.anonymous(), 20_000, func(f *http2.Framer, i int) error {
				return f.WritePing(false, [8]byte{byte(i)})
			})
		}},
		{"F48", "calls that are made and reset at once, by a stranger", isCut, func(t *testing.T, w *world) string {
			return w.resets(t, w.addrs.Registration, w.anonymous(), nstancev1.RegistrationService_RegisterAgent_FullMethodName)
		}},
		{"F48", "calls that are made and reset at once, by an operator", isCut, func(t *testing.T, w *world) string {
			settings, err := box.ClientTLS(w.operatorDir(attacker))
			if err != nil {
				t.Fatal(err)
			}
			return w.resets(t, w.addrs.Operator, settings, nstancev1.OperatorService_ListGroups_FullMethodName)
		}},
	}
}

// resets makes calls that are reset at once.
func (w *world) resets(t *testing.T, addr string, settings *tls.Config, method string) string {
	t.Helper()
	var headers bytes.Buffer
	enc := hpack.NewEncoder(&headers)
	enc.SetMaxDynamicTableSize(0)
	for _, f := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "server"},
		{Name: ":path", Value: method}, {Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
	} {
		if err := enc.WriteField(f); err != nil {
			t.Fatal(err)
		}
	}
	return w.frames(t, addr, settings, 150_000, func(f *http2.Framer, i int) error {
		id := uint32(2*i + 1)
		if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: headers.Bytes(), EndHeaders: true}); err != nil {
			return err
		}
		return f.WriteRSTStream(id, http2.ErrCodeCancel)
	})
}

// frames sends so many frames on one connection. It must be cut on the way.
func (w *world) frames(t *testing.T, addr string, settings *tls.Config, n int, write func(f *http2.Framer, i int) error) string {
	t.Helper()
	raw, err := dialFrom(w.source())(call(t), addr)
	if err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	defer reading.Wait()
	defer func() { _ = raw.Close() }() // ends the reading, too
	settings = settings.Clone()
	settings.NextProtos = []string{"h2"}
	conn := tls.Client(raw, settings)
	if err := conn.HandshakeContext(call(t)); err != nil {
		t.Fatal(err)
	}
	f := http2.NewFramer(conn, conn)
	_, err = io.WriteString(conn, http2.ClientPreface)
	if err == nil {
		err = f.WriteSettings()
	}
	cut := make(chan struct{})
	reading.Go(func() {
		defer close(cut)
		_, _ = io.Copy(io.Discard, conn) // what the server says is of no interest, but that it ends
	})
	sent := 0
	for ; err == nil && sent < n; sent++ {
		err = write(f, sent)
	}
	if err == nil {
		// All went out before the end was seen here: the server says now whether it listens.
		if err = f.WritePing(false, [8]byte{1}); err == nil {
			select {
			case <-cut:
			case <-call(t).Done():
				return fmt.Sprintf("%d frames are taken", sent)
			}
		}
	}
	if _, err := w.operator(t, victim).ListGroups(call(t), &emptypb.Empty{}); err != nil {
		return "an operator: " + said(err)
	}
	return isCut
}
