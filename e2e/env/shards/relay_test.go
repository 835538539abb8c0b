package shards

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// echo serves what it hears, until the test ends.
func echo(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(conn, conn) // the test has one connection at a time
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
	return l.Addr().String()
}

func TestRelay_isSilentWhileItIsCut(t *testing.T) {
	r, err := newRelay(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	conn, err := net.Dial("tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	say := func(word string) {
		t.Helper()
		if _, err := io.WriteString(conn, word); err != nil {
			t.Fatal(err)
		}
	}
	hear := func(patience time.Duration) (string, error) {
		if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		buffer := make([]byte, 2)
		_, err := io.ReadFull(conn, buffer)
		return string(buffer), err
	}
	say("hi")
	if got, err := hear(time.Minute); got != "hi" || err != nil {
		t.Fatalf("heard %q (%v)", got, err)
	}
	r.cut()
	say("ho")
	if got, err := hear(50 * time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("heard %q (%v) while it was cut", got, err)
	}
	r.mend()
	if got, err := hear(time.Minute); got != "ho" || err != nil {
		t.Errorf("heard %q (%v) after it was mended", got, err)
	}
}
