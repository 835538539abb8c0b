package rpc_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// A flood of forged tokens reaches neither a signature check nor storage beyond
// the limit, and from the same address an agent with an outstanding nonce gets
// in, however often others were refused.
func TestF41_Flood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOptions{pipes: true})
		vm := w.machine(w.operatorOf("default"))
		synctest.Wait()
		client := w.anonymous()
		nonce := string(vm.UserData)
		forged := nonce[:strings.LastIndexByte(nonce, '.')+1] + strings.Repeat("A", 86)
		calls := w.store.Calls()
		answers := map[codes.Code]int{}
		for range 200 {
			_, err := client.RegisterAgent(t.Context(), request(t, forged, newKey(t)))
			answers[status.Code(err)]++
		}
		if answers[codes.PermissionDenied] != 50 || answers[codes.ResourceExhausted] != 150 {
			t.Errorf("answers to 200 forgeries: %v, want 50 refused and the others put off", answers)
		}
		_, err := client.RegisterOperator(t.Context(), request(t, w.operatorNonce("default"), newKey(t)))
		wantCode(t, err, codes.ResourceExhausted, "RATE_LIMITED")
		for _, garbage := range []string{"", "x", "a.b.c", strings.Repeat("a", 32<<10)} { // nothing of it is parsed
			for range 20 {
				_, err := client.RegisterAgent(t.Context(), request(t, garbage, newKey(t)))
				wantCode(t, err, codes.ResourceExhausted, "RATE_LIMITED")
				_, err = client.RegisterOperator(t.Context(), request(t, garbage, newKey(t)))
				wantCode(t, err, codes.ResourceExhausted, "RATE_LIMITED")
			}
		}
		if lines := strings.Count(w.log.String(), "call refused"); lines > 2 {
			t.Errorf("the flood of one moment wrote %d lines into the log", lines)
		}
		if n := w.store.Calls() - calls; n != 0 {
			t.Errorf("the flood made %d calls of storage", n)
		}
		if _, err := client.RegisterAgent(t.Context(), request(t, nonce, newKey(t))); err != nil {
			t.Errorf("the agent with the outstanding nonce: %v", err)
		}
		time.Sleep(time.Second)
		if _, err := client.RegisterOperator(t.Context(), request(t, w.operatorNonce("default"), newKey(t))); err != nil {
			t.Errorf("an operator after the flood: %v", err)
		}
	})
}

// However bad a token is, the caller is told the same.
func TestF42_OneAnswer(t *testing.T) {
	w := newWorld(t, worldOptions{})
	nonce := string(w.machine(w.operatorOf("default")).UserData)
	body := strings.Split(nonce, ".")[1]
	tokens := map[string]string{
		"empty": "", "one of an operator": w.operatorNonce("default"),
		"without a signature":      nonce[:strings.LastIndexByte(nonce, '.')+1],
		"alg none":                 "eyJhbGciOiJub25lIiwia2lkIjoieCJ9." + body + ".AA",
		"HMAC":                     "eyJhbGciOiJIUzI1NiIsImtpZCI6IngifQ." + body + ".AA",
		"of an unknown key":        "eyJhbGciOiJFZERTQSIsImtpZCI6IngifQ." + body + ".AA",
		"with a changed signature": nonce[:len(nonce)-4] + "AAAA",
		"of 32 KiB":                strings.Repeat("a", 32<<10),
	}
	for name, token := range tokens {
		_, err := w.anonymous().RegisterAgent(t.Context(), request(t, token, newKey(t)))
		if got, want := fmt.Sprint(err), "rpc error: code = PermissionDenied desc = registration refused"; got != want {
			t.Errorf("a token %s: %s", name, got)
		}
	}
	_, err := w.anonymous().RegisterAgent(t.Context(), request(t, strings.Repeat("a", 1<<20), newKey(t)))
	wantCode(t, err, codes.ResourceExhausted, "")
}

func TestF47_OversizedCalls(t *testing.T) {
	w := newWorld(t, worldOptions{})
	op := w.operatorOf("default")
	_, err := op.DeleteGroup(t.Context(), &nstancev1.DeleteGroupRequest{Key: strings.Repeat("a", 64<<20)})
	wantCode(t, err, codes.ResourceExhausted, "")
	headers := metadata.MD{}
	for i := range 10_000 {
		headers.Set(fmt.Sprintf("name-%d", i), "value")
	}
	if _, err := op.ListGroups(metadata.NewOutgoingContext(t.Context(), headers), &emptypb.Empty{}); err == nil {
		t.Error("10,000 metadata entries were accepted")
	}
	if _, err := op.ListGroups(t.Context(), &emptypb.Empty{}); err != nil {
		t.Errorf("after that: %v", err)
	}
}

// A client that sends its handshake byte by byte is cut off after ten seconds.
func TestF48_SlowHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOptions{pipes: true})
		conn, err := w.raw(t.Context(), w.agent)
		if err != nil {
			t.Fatal(err)
		}
		var writing sync.WaitGroup
		defer writing.Wait()
		defer conn.Close()
		start := time.Now()
		writing.Go(func() {
			for _, b := range []byte{22, 3, 1, 1, 0, 1, 0, 0, 252, 3, 3, 0, 0, 0, 0, 0, 0} {
				if _, err := conn.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		})
		_, _ = io.ReadAll(conn)
		if took := time.Since(start); took > 11*time.Second {
			t.Errorf("the connection was held for %v", took)
		}
	})
}

// A watcher that never reads holds up nobody, and is cut off.
func TestF48_L11_WatcherThatNeverReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldOptions{pipes: true})
		op, sleeper := w.operatorOf("default"), w.operatorOf("default")
		stream, err := sleeper.WatchGroups(t.Context(), &emptypb.Empty{})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		template := "plain"
		start := time.Now()
		for i := range 400 {
			vars := &nstancev1.StringMap{Values: map[string]string{"text": strings.Repeat(fmt.Sprint(i%10), 4<<10)}}
			req := &nstancev1.UpsertGroupRequest{Key: "web", Config: &nstancev1.GroupConfig{Template: &template, Vars: vars}}
			if _, err := op.UpsertGroup(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("400 changes took %v while a watcher slept", took)
		}
		time.Sleep(time.Minute)
		for err == nil {
			_, err = stream.Recv()
		}
		wantCode(t, err, codes.ResourceExhausted, "WATCHER_TOO_SLOW")
	})
}

func TestPanicIsAnswered(t *testing.T) {
	w := newWorld(t, worldOptions{})
	op := w.operatorOf("default")
	w.refresher.panics("marked secret")
	_, err := op.RefreshConfig(t.Context(), &emptypb.Empty{})
	wantCode(t, err, codes.Internal, "INTERNAL")
	if strings.Contains(err.Error(), "marked secret") {
		t.Errorf("the panic left the server: %v", err)
	}
	w.refresher.panics("")
	if _, err := op.RefreshConfig(t.Context(), &emptypb.Empty{}); err != nil {
		t.Errorf("after the panic: %v", err)
	}
	if log := w.log.String(); !strings.Contains(log, "marked secret") {
		t.Error("the log does not say what happened")
	}
}

func TestCallersDeadline(t *testing.T) {
	w := newWorld(t, worldOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), -time.Second)
	defer cancel()
	_, err := w.operatorOf("default").ListGroups(ctx, &emptypb.Empty{})
	wantCode(t, err, codes.DeadlineExceeded, "")
}
