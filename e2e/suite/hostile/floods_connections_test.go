package hostile

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// silent connects to a port, answers pings, and says nothing else. It returns once the
// server ends the connection, or the context ends.
func (w *world) silent(ctx context.Context, source net.Addr, addr string, ready func()) {
	raw, err := dialFrom(source)(ctx, addr)
	if err != nil {
		return // it is refused
	}
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	defer func() { _ = raw.Close() }()
	settings := w.anonymous()
	settings.NextProtos = []string{"h2"}
	conn := tls.Client(raw, settings)
	patience, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if conn.HandshakeContext(patience) != nil {
		return
	}
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return
	}
	frames := http2.NewFramer(conn, conn)
	err = frames.WriteSettings()
	ready()
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
}

// connectionFloods are those of strangers without a certificate.
func connectionFloods() []attempt {
	return []attempt{
		{"S22", "idle connections of a stranger stay", "few stay", func(t *testing.T, w *world) string {
			ctx, cancel := context.WithCancel(t.Context())
			var strangers sync.WaitGroup
			defer strangers.Wait()
			defer cancel()
			var open atomic.Int32
			source := w.source()
			stranger := func() {
				open.Add(1)
				strangers.Go(func() {
					defer open.Add(-1)
					w.silent(ctx, source, w.addrs.Registration, func() {})
				})
			}
			for range 300 {
				stranger()
			}
			for start := time.Now(); time.Since(start) < 20*time.Second; time.Sleep(200 * time.Millisecond) {
				stranger() // room is made when somebody comes
				if n := open.Load(); n <= 80 {
					return "few stay"
				}
			}
			return fmt.Sprintf("%d stay", open.Load())
		}},
		{"S22", "idle connections of strangers take the server's descriptors", othersServed, func(t *testing.T, _ *world) string {
			w := newWorldFrom(t, withDescriptors(t, 400), population{admin: 1, victim: 1, attacker: 1})
			ctx, cancel := context.WithCancel(t.Context())
			var strangers, ready sync.WaitGroup
			defer strangers.Wait()
			defer cancel()
			for range 500 {
				ready.Add(1)
				source := w.source()
				strangers.Go(func() {
					once := sync.OnceFunc(ready.Done)
					defer once()
					w.silent(ctx, source, w.addrs.Registration, once)
				})
			}
			ready.Wait()
			if _, err := w.operator(t, victim).ListGroups(call(t), &emptypb.Empty{}); err != nil {
				return "a new operator: " + said(err)
			}
			if _, err := w.operator(t, victim).UpsertGroup(call(t), &nstancev1.UpsertGroupRequest{Key: "new", Config: plainGroup(0)}); err != nil {
				return "a change: " + said(err)
			}
			return othersServed
		}},
		{"F48", "handshakes that are never finished", othersServed, func(t *testing.T, w *world) string {
			return w.others(t, func(ctx context.Context) {
				w.drip(ctx, w.addrs.Agent, 300, "\x16\x03\x01\x01\x00\x01\x00\x00\xfc\x03\x03")
			})
		}},
		{"F48", "requests that are never finished", othersServed, func(t *testing.T, w *world) string {
			answer := ""
			others := w.others(t, func(ctx context.Context) {
				var dripping sync.WaitGroup
				defer dripping.Wait()
				dripping.Go(func() { w.drip(ctx, w.addrs.Health, 200, "GET / HTTP/1.1\r\nX-a: ") })
				answer = codeOf(w.asked(t, w.addrs.Health, nil, "GET", "/livez"))
			})
			if answer != "200" {
				return "a probe: " + answer
			}
			return others
		}},
		{"F47", "metadata of 9 KiB", "refused", func(t *testing.T, w *world) string { return w.longMetadata(t, 9<<10) }},
		{"F47", "metadata of a megabyte", "refused", func(t *testing.T, w *world) string { return w.longMetadata(t, 1<<20) }},
		{"F47", "a gigabyte of nothing, compressed", "refused, and memory is flat", func(t *testing.T, w *world) string {
			before := w.memory(t)
			code := w.bomb(t)
			if after := w.memory(t); after > before+200<<20 {
				return fmt.Sprintf("the server has grown from %d to %d MiB", before>>20, after>>20)
			}
			if code == "" || code == "0" {
				return "taken"
			}
			return "refused, and memory is flat"
		}},
	}
}

// drip opens connections of many sources and sends the beginning of something, and no more.
func (w *world) drip(ctx context.Context, addr string, n int, beginning string) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	source := w.source()
	for range n {
		conn, err := dialFrom(source)(ctx, addr)
		if err != nil {
			return // no more are taken
		}
		defer func() { _ = conn.Close() }() // all stay open until then
		if _, err := io.WriteString(conn, beginning); err != nil {
			return
		}
	}
	<-ctx.Done()
}

// longMetadata makes a call with much metadata.
func (w *world) longMetadata(t *testing.T, size int) string {
	t.Helper()
	ctx := metadata.AppendToOutgoingContext(call(t), "x-long", strings.Repeat("a", size))
	if _, err := w.operator(t, attacker).ListGroups(ctx, &emptypb.Empty{}); err == nil {
		return letIn
	}
	return "refused"
}

// bomb sends a message that is large once it is decompressed, and returns the code of the
// answer; empty without one.
func (w *world) bomb(t *testing.T) string {
	t.Helper()
	body, out := io.Pipe()
	var sending sync.WaitGroup
	defer sending.Wait()
	defer func() { _ = body.Close() }() // what is not read yet is not sent
	sending.Go(func() {
		var compressed strings.Builder
		zip, _ := gzip.NewWriterLevel(&compressed, gzip.BestSpeed) // the level is one
		zeros := make([]byte, 1<<20)
		for range 1 << 10 {
			_, _ = zip.Write(zeros) // into memory
		}
		_ = zip.Close()
		head := binary.BigEndian.AppendUint32([]byte{1}, uint32(compressed.Len()))
		_, err := io.WriteString(out, string(head)+compressed.String())
		_ = out.CloseWithError(err)
	})
	settings := w.anonymous()
	settings.NextProtos = []string{"h2"}
	transport := &http2.Transport{TLSClientConfig: settings}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(call(t), http.MethodPost, "https://"+w.addrs.Registration+nstancev1.RegistrationService_RegisterAgent_FullMethodName, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}, "Grpc-Encoding": {"gzip"}}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body) // the trailers come after it
	return resp.Header.Get("Grpc-Status") + resp.Trailer.Get("Grpc-Status")
}

// withDescriptors makes a directory of programs whose server may have so many files open.
func withDescriptors(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"nstance-agent", "nstance-admin"} {
		if err := os.Symlink(program(t, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	script := fmt.Sprintf("#!/bin/sh\nulimit -n %d\nexec %s \"$@\"\n", n, program(t, "nstance-server-local"))
	if err := os.WriteFile(filepath.Join(dir, "nstance-server-local"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}
