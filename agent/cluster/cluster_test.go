package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nstance.dev/protos/binding"
)

func joins(id string) Request {
	return Request{Binding: id, Action: binding.Joining, Blob: []byte("#!/bin/sh\n")}
}

func leaves(id string) Request { return Request{Binding: id, Action: binding.Leaving} }

func is(id string, action binding.Action, state binding.State) Entry {
	return Entry{Binding: id, Action: action, State: state}
}

func TestNext(t *testing.T) {
	joined := Status{Current: is("b1", binding.Joining, binding.Done)}
	left := Status{Current: is("b1", binding.Leaving, binding.Done), Past: []string{"b0"}}
	for _, tt := range []struct {
		name    string
		status  Status
		request Request
		want    Step
		says    string
	}{
		{"the first binding", Status{}, joins("b1"), Run, ""},
		{"the same one again", joined, joins("b1"), Known, ""},
		{"the same one while it fails", Status{Current: is("b1", binding.Joining, binding.Failed)}, joins("b1"), Known, ""},
		{"another one beside it", joined, joins("b2"), Refuse, "b1"},
		{"another one beside one that failed", Status{Current: is("b1", binding.Joining, binding.Failed)}, joins("b2"), Refuse, "b1"},
		{"another one beside one that did not leave", Status{Current: is("b1", binding.Leaving, binding.Failed)}, joins("b2"), Refuse, "b1"},
		{"another one afterwards", left, joins("b2"), Run, ""},
		{"one that has left", left, joins("b1"), Known, ""},
		{"one that has left before", left, joins("b0"), Known, ""},
		{"one that was refused", Status{Refused: Failure("b2", binding.Joining, "not now")}, joins("b2"), Known, ""},
		{"to leave", joined, leaves("b1"), Run, ""},
		{"to leave what failed", Status{Current: is("b1", binding.Joining, binding.Failed)}, leaves("b1"), Run, ""},
		{"to leave again", left, leaves("b1"), Known, ""},
		{"to leave again what failed to", Status{Current: is("b1", binding.Leaving, binding.Failed)}, leaves("b1"), Known, ""},
		{"to leave what never joined", Status{}, leaves("b1"), Nothing, ""},
		{"to leave another one", joined, leaves("b2"), Nothing, ""},
		{"to leave what has ended", left, leaves("b0"), Known, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			step, why := tt.status.Next(tt.request)
			if step != tt.want || !strings.Contains(why, tt.says) || (why == "") != (tt.says == "") {
				t.Errorf("Next() = %v, %q; want %v and %q", step, why, tt.want, tt.says)
			}
		})
	}
}

// Whatever is asked for in whatever order, and however often it is interrupted: no binding is
// joined twice or left twice, and none joins beside another.
func TestNothingIsRunTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Status
		ran := map[string]int{}
		inside := "" // what has joined and not left
		for range rapid.IntRange(1, 60).Draw(t, "requests") {
			id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "binding")
			r := joins(id)
			if rapid.Bool().Draw(t, "leaves") {
				r = leaves(id)
			}
			switch step, why := s.Next(r); step {
			case Run:
				if ran[r.FileName()]++; ran[r.FileName()] > 1 {
					t.Fatalf("%s runs twice", r.FileName())
				}
				if r.Action == binding.Joining && inside != "" {
					t.Fatalf("%s joins beside %s", id, inside)
				}
				if r.Action == binding.Leaving && inside != id {
					t.Fatalf("%s leaves and %s is there", id, inside)
				}
				s = s.With(is(id, r.Action, binding.Running))
				inside = id
				switch rapid.IntRange(0, 2).Draw(t, "end") {
				case 0:
					s = s.Interrupted()
				case 1:
					s = s.With(is(id, r.Action, binding.Failed))
				default:
					s = s.With(is(id, r.Action, binding.Done))
					if r.Action == binding.Leaving {
						inside = ""
					}
				}
			case Nothing:
				s = s.WithPast(id)
			case Refuse:
				s.Refused = Failure(id, r.Action, why)
			}
			if _, known := s.Report(id); !known {
				t.Fatalf("nothing is known of %s", id)
			}
			again(t, s)
		}
	})
}

// again encodes and decodes.
func again(t interface{ Fatalf(string, ...any) }, s Status) {
	data, err := s.Encode()
	if err != nil {
		t.Fatalf("%v", err)
	}
	got, err := DecodeStatus(data)
	if err != nil {
		t.Fatalf("%v", err)
	}
	s.Version = version
	if diff := cmp.Diff(s, got); diff != "" {
		t.Fatalf("decoded again: %s", diff)
	}
}

func TestInterrupted(t *testing.T) {
	s := Status{Current: is("b1", binding.Joining, binding.Running)}.Interrupted()
	if s.Current.State != binding.Failed || s.Current.ExitCode != binding.NoExit || !strings.Contains(s.Current.Error, "interrupted") {
		t.Errorf("%+v", s.Current)
	}
	ended := Status{Current: is("b1", binding.Joining, binding.Done)}
	if diff := cmp.Diff(ended, ended.Interrupted()); diff != "" {
		t.Error(diff)
	}
}

func TestPastIsBounded(t *testing.T) {
	var s Status
	for i := range 3 * maxPast {
		s = s.With(is("b"+strings.Repeat("x", i%60)+string(rune('a'+i/60)), binding.Leaving, binding.Done))
	}
	if len(s.Past) != maxPast {
		t.Errorf("%d bindings are remembered", len(s.Past))
	}
	again(t, s)
}

// S24: the largest request and the largest status can be read.
func TestS24_TheLargestFilesCanBeRead(t *testing.T) {
	node := binding.Node{Labels: map[string]string{}}
	for i := range binding.MaxLabels {
		node.Labels[strings.Repeat("a", 253)[:253-2]+string(rune('a'+i%26))+string(rune('a'+i/26))+"/"+strings.Repeat("b", 63)] = strings.Repeat("c", 63)
	}
	for range binding.MaxTaints {
		node.Taints = append(node.Taints, binding.Taint{Key: strings.Repeat("a", 253) + "/" + strings.Repeat("b", 63), Value: strings.Repeat("c", 63), Effect: "PreferNoSchedule"})
	}
	r := Request{Binding: strings.Repeat("b", 64), Action: binding.Joining, Node: node, Blob: append([]byte("#!/bin/sh\n"), make([]byte, binding.MaxBlob-10)...)}
	data, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeRequest(data); err != nil {
		t.Errorf("%d bytes: %v", len(data), err)
	}
	long := Entry{
		Binding: strings.Repeat("b", 64), Action: binding.Joining, State: binding.Failed, ExitCode: -1,
		Output: bytes.Repeat([]byte{0xff}, binding.MaxOutput), Error: strings.Repeat("\x01", binding.MaxError),
	}
	s := Status{Current: long, Refused: long}
	for i := range maxPast {
		s.Past = append(s.Past, strings.Repeat("p", 62)+string(rune('a'+i%26))+string(rune('a'+i/26)))
	}
	again(t, s)
}

func TestRequestsThatAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":           ``,
		"no JSON":           `{`,
		"no object":         `[]`,
		"no version":        `{"binding_id":"b1","action":"leave"}`,
		"a later version":   `{"v":2,"binding_id":"b1","action":"leave"}`,
		"an unknown member": `{"v":1,"binding_id":"b1","action":"leave","run":"x"}`,
		"a path":            `{"v":1,"binding_id":"../b1","action":"leave"}`,
		"an unknown action": `{"v":1,"binding_id":"b1","action":"reboot"}`,
		"no blob":           `{"v":1,"binding_id":"b1","action":"join"}`,
		"another blob":      `{"v":1,"binding_id":"b1","action":"join","blob":"bWFya2Vk"}`,
		"a leave with one":  `{"v":1,"binding_id":"b1","action":"leave","blob":"IyEvYmluL3NoCg=="}`,
		"a label with more": `{"v":1,"binding_id":"b1","action":"join","blob":"IyEvYmluL3NoCg==","node":{"labels":{"a":"b\nPATH=/tmp"}}}`,
		"two values":        `{"v":1,"binding_id":"b1","action":"leave"}{}`,
	} {
		if _, err := DecodeRequest([]byte(text)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := DecodeRequest(make([]byte, MaxRequest+1)); !errors.Is(err, ErrInvalid) {
		t.Error("a request that is too long is taken")
	}
}

func TestRequestFileNames(t *testing.T) {
	if j, l := joins("b1").FileName(), leaves("b1").FileName(); j != "b1.join.request" || l <= j || !IsRequest(j) || !IsRequest(l) {
		t.Errorf("%q and %q", j, l)
	}
	if IsRequest(".b1.join.request") || IsRequest("b1.join.request123") {
		t.Error("a file that is being written is a request")
	}
}

// A request that is accepted is the same when it is written and read again, and no error quotes
// what it is about (S14).
func FuzzRequest(f *testing.F) {
	for _, r := range []Request{joins("b1"), leaves("b1")} {
		data, err := r.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"v":1,"marked-secret-77":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := DecodeRequest(data)
		if err != nil {
			if strings.Contains(err.Error(), "marked-secret") {
				t.Fatalf("the error quotes the file: %v", err)
			}
			return
		}
		once, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeRequest(once)
		if err != nil {
			t.Fatalf("accepted and not read again: %v", err)
		}
		if twice, _ := back.Encode(); !bytes.Equal(once, twice) {
			t.Fatal("written again it differs")
		}
		if strings.ContainsAny(r.FileName(), "/\x00\n") || !IsRequest(r.FileName()) {
			t.Fatalf("file name %q", r.FileName())
		}
	})
}

// FuzzStatus: what is read is bounded, and can be written and read again.
func FuzzStatus(f *testing.F) {
	data, err := Status{Current: is("b1", binding.Leaving, binding.Done), Refused: Failure("b2", binding.Joining, "no"), Past: []string{"b0"}}.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"v":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := DecodeStatus(data)
		if err != nil {
			return
		}
		once, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeStatus(once); err != nil && json.Valid(data) {
			t.Fatalf("accepted and not read again: %v", err)
		}
		s.Next(joins("b1"))
		s.Next(leaves("b1"))
		s.Report("b1")
	})
}
