package logs

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
)

const (
	// MostEntries are read of a journal: the last ones.
	MostEntries = 20_000
	// mostText is kept of a journal, bytes: its end.
	mostText = 4 << 20
	// mostLine is the longest line that is read: the fields of an entry have 4096 bytes each, and what is no text six times as
	// many in JSON.
	mostLine = 256 << 10
	// MostPacked is how large the compressed whole is at most, bytes.
	MostPacked = 1 << 20
)

// Packed are logs as they are handed over.
type Packed struct {
	Content []byte // text, compressed
	Entries int
	Omitted int // entries that were left out: the oldest ones
}

// Section is one journal. Write takes its lines of JSON; one goroutine uses it.
type Section struct {
	Title string
	// Err is why the journal could not be read, or not to its end.
	Err  error
	mask *Mask

	partial  []byte
	skipping bool // the rest of a line that is too long
	lines    []string
	size     int
	omitted  int // entries that were left out: the oldest ones
	// unreadable are the lines that were no entries.
	unreadable int
}

// NewSection returns a section that masks secrets.
func NewSection(title string, secrets []string) *Section {
	return &Section{Title: title, mask: NewMask(secrets)}
}

// Write takes lines, or parts of them. It never fails.
func (s *Section) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		part, after, whole := bytes.Cut(rest, []byte("\n"))
		rest = after
		if !s.skipping {
			s.partial = append(s.partial, part[:min(len(part), mostLine+1-len(s.partial))]...)
		}
		if len(s.partial) > mostLine {
			s.partial, s.skipping = s.partial[:0], true
			s.unreadable++
		}
		if whole {
			s.Close()
			s.skipping = false
		}
	}
	return len(p), nil
}

// Close takes a last line that has no end.
func (s *Section) Close() {
	if len(s.partial) == 0 {
		return
	}
	e, err := parse(s.partial)
	s.partial = s.partial[:0]
	if err != nil {
		s.unreadable++
		return
	}
	line := e.line(s.mask.message(e))
	s.lines = append(s.lines, line)
	for s.size += len(line); s.size > mostText; {
		s.omit(1)
	}
}

// omit leaves out the oldest entries.
func (s *Section) omit(n int) {
	for _, line := range s.lines[:n] {
		s.size -= len(line)
	}
	clear(s.lines[:n])
	s.lines = s.lines[n:]
	s.omitted += n
}

// Pack returns sections, with a title, as compressed text of at most most bytes. It leaves out their oldest entries until they
// are small enough for that.
func Pack(title string, most int, sections ...*Section) (Packed, error) {
	for {
		content, err := pack(title, sections)
		if err != nil {
			return Packed{}, fmt.Errorf("compress logs: %w", err)
		}
		if len(content) <= most {
			p := Packed{Content: content}
			for _, s := range sections {
				p.Entries += len(s.lines)
				p.Omitted += s.omitted
			}
			return p, nil
		}
		left := false
		for _, s := range sections {
			if half := (len(s.lines) + 1) / 2; half > 0 {
				s.omit(half)
				left = true
			}
		}
		if !left {
			return Packed{}, fmt.Errorf("compress logs: %d bytes without an entry are more than %d", len(content), most)
		}
	}
}

func pack(title string, sections []*Section) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := fmt.Fprintf(w, "# %s\n", plain(title)); err != nil {
		return nil, err
	}
	for _, s := range sections {
		if _, err := fmt.Fprintf(w, "\n# %s: %s\n", plain(s.Title), s.summary()); err != nil {
			return nil, err
		}
		for _, line := range s.lines {
			if _, err := w.Write([]byte(line)); err != nil {
				return nil, err
			}
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func (s *Section) summary() string {
	text := fmt.Sprintf("%d entries", len(s.lines))
	if s.omitted > 0 {
		text += fmt.Sprintf(", %d older ones left out", s.omitted)
	}
	if s.mask.Number > 0 {
		text += fmt.Sprintf(", something masked in %d", s.mask.Number)
	}
	if s.unreadable > 0 {
		text += fmt.Sprintf(", %d lines could not be read", s.unreadable)
	}
	if s.Err != nil {
		text += fmt.Sprintf(", not read to the end: %.256s", plain(strings.ReplaceAll(s.Err.Error(), "\n", " ")))
	}
	return text
}
