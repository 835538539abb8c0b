package output

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"
)

// Stream prints items as they come, one line each: in JSON one object per line,
// in YAML one document each. It is safe for concurrent use.
type Stream[T proto.Message] struct {
	w      io.Writer
	format Format
	view   View[T]

	mu     sync.Mutex
	widths []int // of the table's columns so far; nil before the header
}

// NewStream returns a stream that prints to w.
func NewStream[T proto.Message](w io.Writer, format Format, view View[T]) *Stream[T] {
	return &Stream[T]{w: w, format: format, view: view}
}

// Print prints one item.
func (s *Stream[T]) Print(item Item[T]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.format {
	case JSON, YAML:
		return s.document(item)
	case Name:
		_, err := fmt.Fprintln(s.w, s.view.Name(item.Message))
		return err
	}
	if s.widths == nil {
		headers := s.view.headers(s.format, item.Shard != "")
		s.widths = make([]int, len(headers))
		if err := s.row(headers, s.view.cells(s.format, item)); err != nil {
			return err
		}
	}
	return s.row(s.view.cells(s.format, item), nil)
}

func (s *Stream[T]) document(item Item[T]) error {
	data, err := marshal(item)
	if err != nil {
		return err
	}
	if s.format == YAML {
		if data, err = yaml.JSONToYAML(data); err != nil {
			return fmt.Errorf("print yaml: %w", err)
		}
		_, err = fmt.Fprintf(s.w, "---\n%s", data)
		return err
	}
	_, err = fmt.Fprintf(s.w, "%s\n", data)
	return err
}

// row prints cells at least as wide as any before them, and as next is to be:
// later rows are not known yet, so columns may still move to the right.
func (s *Stream[T]) row(cells, next []string) error {
	var b strings.Builder
	for i, c := range cells {
		s.widths[i] = max(s.widths[i], utf8.RuneCountInString(c))
		if i < len(next) {
			s.widths[i] = max(s.widths[i], utf8.RuneCountInString(next[i]))
		}
		if i == len(cells)-1 {
			b.WriteString(c)
			break
		}
		fmt.Fprintf(&b, "%-*s", s.widths[i]+3, c)
	}
	_, err := fmt.Fprintln(s.w, b.String())
	return err
}
