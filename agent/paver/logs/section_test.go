package logs

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

func unpack(t *testing.T, content []byte) string {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// jsonLine is an entry as journalctl writes it.
func jsonLine(fields map[string]any) string {
	text, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return string(text) + "\n"
}

// TestSection: what journalctl writes, in every form that it has for a field, and what is none of it.
func TestSection(t *testing.T) {
	s := NewSection("journal of the host", []string{marked})
	at := map[string]any{"__REALTIME_TIMESTAMP": "1767225600000001"}
	with := func(pairs ...any) string {
		fields := map[string]any{"__REALTIME_TIMESTAMP": at["__REALTIME_TIMESTAMP"]}
		for i := 0; i < len(pairs); i += 2 {
			fields[pairs[i].(string)] = pairs[i+1]
		}
		return jsonLine(fields)
	}
	input := with("MESSAGE", "hello "+marked, "_SYSTEMD_UNIT", "kubelet.service", "SYSLOG_IDENTIFIER", "kubelet", "_PID", "42") +
		with("MESSAGE", []int{104, 105, 255, 27, 91}, "_COMM", "sh") +
		with("MESSAGE", nil, "SYSLOG_IDENTIFIER", "large") +
		with("MESSAGE", []string{"first", "last"}, "SYSLOG_IDENTIFIER", "two") +
		with("MESSAGE", "a\nb\x1b[2Jc\u202ed", "SYSLOG_IDENTIFIER", "lines") +
		"no JSON\n" + jsonLine(map[string]any{"MESSAGE": "no time"}) + "null\n" +
		with("MESSAGE", "the end has no newline")
	input = strings.TrimSuffix(input, "\n")
	for _, b := range []byte(input) { // in the smallest parts
		if n, err := s.Write([]byte{b}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	s.Close()
	s.Err = errors.New("ended\nearly")
	got, err := Pack("op\x1b", MostPacked, s)
	if err != nil {
		t.Fatal(err)
	}
	want := `# op?

# journal of the host: 6 entries, something masked in 1, 3 lines could not be read, not read to the end: ended early
2026-01-01T00:00:00.000001Z kubelet.service kubelet[42]: hello <masked>
2026-01-01T00:00:00.000001Z - sh: hi??[
2026-01-01T00:00:00.000001Z - large: <a message of more than 4096 bytes>
2026-01-01T00:00:00.000001Z - two: last
2026-01-01T00:00:00.000001Z - lines: a
    b?[2Jc?d
2026-01-01T00:00:00.000001Z - : the end has no newline
`
	if text := unpack(t, got.Content); text != want || got.Entries != 6 || got.Omitted != 0 {
		t.Errorf("%d entries, %d omitted:\n%s\nwant\n%s", got.Entries, got.Omitted, text, want)
	}
}

// TestSectionIsBounded: of a journal the end is kept, and a line that is too long is no reason to lose the next one.
func TestSectionIsBounded(t *testing.T) {
	s := NewSection("x", nil)
	fmt.Fprintf(s, `{"MESSAGE":"%s"`, strings.Repeat("x", 2*mostLine))
	fmt.Fprint(s, "}\n", jsonLine(map[string]any{"__REALTIME_TIMESTAMP": "1", "MESSAGE": "after"}))
	if s.unreadable != 1 || len(s.lines) != 1 || cap(s.partial) > 2*mostLine+4096 {
		t.Errorf("after a long line: %d unreadable, %d lines", s.unreadable, len(s.lines))
	}
	const n = 3000
	message := strings.Repeat("word ", 400) // 2000 bytes
	for i := range n {
		fmt.Fprint(s, jsonLine(map[string]any{"__REALTIME_TIMESTAMP": "1", "MESSAGE": fmt.Sprint(message, i)}))
	}
	if s.size > mostText || s.omitted == 0 || s.omitted+len(s.lines) != n+1 || !strings.HasSuffix(s.lines[len(s.lines)-1], fmt.Sprint(n-1, "\n")) {
		t.Errorf("%d bytes, %d omitted, %d lines", s.size, s.omitted, len(s.lines))
	}
}

// TestPackIsBounded: what cannot be compressed loses its oldest entries, and the count says so.
func TestPackIsBounded(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s := NewSection("x", nil)
	for i := range 1000 {
		words := make([]string, 60)
		for i := range words {
			words[i] = fmt.Sprintf("%08x", random.Uint32())
		}
		fmt.Fprint(s, jsonLine(map[string]any{"__REALTIME_TIMESTAMP": "1", "MESSAGE": fmt.Sprint(i, ": ", strings.Join(words, " "))}))
	}
	got, err := Pack("x", 100<<10, s)
	if err != nil || len(got.Content) > 100<<10 || got.Entries+got.Omitted != 1000 || got.Omitted == 0 {
		t.Fatalf("%d bytes, %d entries, %d omitted, %v", len(got.Content), got.Entries, got.Omitted, err)
	}
	if text := unpack(t, got.Content); !strings.Contains(text, "- : 999: ") || !strings.Contains(text, fmt.Sprintf("%d older ones left out", got.Omitted)) {
		t.Errorf("the last entry or the count is missing: %.200s", text)
	}
	if _, err := Pack("x", 10, NewSection("y", nil)); err == nil {
		t.Error("nothing can be packed into ten bytes")
	}
}

// FuzzSection: whatever a journal holds, a known secret is not handed over, nothing steers a terminal, and the size is bounded.
func FuzzSection(f *testing.F) {
	f.Add(`{"__REALTIME_TIMESTAMP":"1","MESSAGE":"x"}`, "y")
	f.Add(`{"__REALTIME_TIMESTAMP":"1","MESSAGE":[1,2,300]}`, marked)
	f.Add("[]\n{}\nnull", "-----BEGIN PRIVATE KEY-----")
	f.Fuzz(func(t *testing.T, raw, message string) {
		s := NewSection("x", []string{marked})
		fmt.Fprint(s, raw, "\n", jsonLine(map[string]any{"__REALTIME_TIMESTAMP": "1", "MESSAGE": message + marked + message}))
		s.Close()
		for _, line := range s.lines {
			if strings.Contains(line, marked) || strings.ContainsAny(line, "\x00\x1b\r") {
				t.Errorf("%q", line)
			}
		}
		if s.size > mostText {
			t.Errorf("%d bytes", s.size)
		}
	})
}
