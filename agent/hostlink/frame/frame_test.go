package frame_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"google.golang.org/protobuf/proto"

	"nstance.dev/agent/hostlink/frame"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func status(text string) *nstancev1.PaverToAgent {
	return &nstancev1.PaverToAgent{Message: &nstancev1.PaverToAgent_Status{Status: &nstancev1.MachineStatus{Epoch: 3, LastError: text}}}
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	var stream bytes.Buffer
	all := []*nstancev1.PaverToAgent{status("a"), {}, status(strings.Repeat("b", 1<<20))}
	for _, m := range all {
		if err := frame.Write(&stream, m); err != nil {
			t.Fatal(err)
		}
	}
	in := iotest.OneByteReader(&stream)
	for _, want := range all {
		got := status("what was there before")
		if err := frame.Read(in, got); err != nil || !proto.Equal(got, want) {
			t.Errorf("read %.80v, %v", got, err)
		}
	}
	if err := frame.Read(in, new(nstancev1.PaverToAgent)); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func TestF52_WhatIsNoFrame(t *testing.T) {
	if err := frame.Write(io.Discard, status(strings.Repeat("x", frame.Max))); !errors.Is(err, frame.ErrTooLong) {
		t.Errorf("write of too much: %v", err)
	}
	head := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"nothing":             {nil, io.EOF},
		"half a length":       {head(5)[:2], io.ErrUnexpectedEOF},
		"a length and no end": {append(head(5), 1, 2), io.ErrUnexpectedEOF},
		"too long":            {append(head(frame.Max+1), make([]byte, 64)...), frame.ErrTooLong},
		"the longest length":  {head(1<<32 - 1), frame.ErrTooLong},
		"no message":          {append(head(3), 0xff, 0xff, 0xff), frame.ErrMalformed},
	} {
		if err := frame.Read(bytes.NewReader(c.data), new(nstancev1.PaverToAgent)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	// A frame that holds nonsense is taken off the stream whole.
	in := bytes.NewReader(append(append(head(3), 0xff, 0xff, 0xff), head(0)...))
	if err := frame.Read(in, new(nstancev1.PaverToAgent)); !errors.Is(err, frame.ErrMalformed) {
		t.Error(err)
	}
	if err := frame.Read(in, new(nstancev1.PaverToAgent)); err != nil {
		t.Errorf("the next frame: %v", err)
	}
}

// Whoever announces a long message and sends nothing gets no memory for it.
func TestS22_NoMemoryForWhatHasNotCome(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		_ = frame.Read(bytes.NewReader(binary.BigEndian.AppendUint32(nil, frame.Max)), new(nstancev1.PaverToAgent))
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > frame.Max {
		t.Errorf("%d bytes for a hundred empty announcements", used)
	}
}

func FuzzRead(f *testing.F) {
	var stream bytes.Buffer
	if err := errors.Join(frame.Write(&stream, status("a")), frame.Write(&stream, status("b"))); err != nil {
		f.Fatal(err)
	}
	f.Add(stream.Bytes())
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0, 0, 0, 2, 8})
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bytes.NewReader(data)
		for {
			var m nstancev1.PaverToAgent
			before := in.Len()
			err := frame.Read(in, &m)
			if err != nil && !errors.Is(err, frame.ErrMalformed) {
				return
			}
			if in.Len() >= before {
				t.Fatal("nothing was read, and no end was found")
			}
			if err != nil {
				continue
			}
			var again bytes.Buffer
			if err := frame.Write(&again, &m); err != nil {
				t.Fatalf("what was read cannot be written: %v", err)
			}
			var copied nstancev1.PaverToAgent
			if err := frame.Read(&again, &copied); err != nil || !proto.Equal(&m, &copied) {
				t.Fatalf("read again as %v, %v", &copied, err)
			}
		}
	})
}
