package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"
)

// Column is one column of a table.
type Column[T any] struct {
	Header string
	Wide   bool // shown with the format wide only
	Value  func(T) string
}

// View says how items of one type look: messages of the servers' API, or objects of Kubernetes.
type View[T any] struct {
	Columns []Column[T]
	Name    func(T) string // for the format name
}

// Item is a message or object and, if not empty, the shard that it came from, which then
// is printed too.
type Item[T any] struct {
	Shard   string
	Message T
}

// List prints items in the given format: in JSON and YAML as one array, which an
// empty list is too. They are sorted first, if the format says so.
func List[T any](w io.Writer, format Format, view View[T], items []Item[T]) error {
	if err := Sort(items, format.SortBy); err != nil {
		return err
	}
	switch format.Shape() {
	case JSON:
		list := make([]json.RawMessage, 0, len(items))
		for _, item := range items {
			data, err := marshal(item)
			if err != nil {
				return err
			}
			list = append(list, data)
		}
		data, err := json.Marshal(list)
		if err != nil {
			return fmt.Errorf("print list: %w", err)
		}
		return document(w, format, data)
	case Name:
		for _, item := range items {
			fmt.Fprintln(w, view.Name(item.Message))
		}
		return nil
	}
	return view.table(w, format, items)
}

// Object prints one item: in JSON and YAML as an object.
func Object[T any](w io.Writer, format Format, view View[T], item Item[T]) error {
	if format.Shape() != JSON {
		return List(w, format, view, []Item[T]{item})
	}
	data, err := marshal(item)
	if err != nil {
		return err
	}
	return document(w, format, data)
}

// marshal returns compact JSON, which protojson alone would not promise.
func marshal[T any](item Item[T]) (json.RawMessage, error) {
	data, err := encode(item.Message)
	if err != nil {
		return nil, fmt.Errorf("print %T: %w", item.Message, err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, data); err != nil {
		return nil, fmt.Errorf("print: %w", err)
	}
	if item.Shard == "" {
		return compact.Bytes(), nil
	}
	return withShard(item.Shard, compact.Bytes())
}

// encode returns a message with the names of the protocol, and anything else by its tags.
func encode(v any) ([]byte, error) {
	if message, ok := v.(proto.Message); ok {
		return protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(message)
	}
	return json.Marshal(v)
}

// withShard puts the shard in front of the members of a compact object.
func withShard(shard string, object []byte) (json.RawMessage, error) {
	name, err := json.Marshal(shard)
	if err != nil {
		return nil, fmt.Errorf("print: %w", err)
	}
	out := append([]byte(`{"shard":`), name...)
	if rest := object[1:]; len(rest) > 1 {
		out = append(append(out, ','), rest...)
		return out, nil
	}
	return append(out, '}'), nil
}

// Value prints what is no message of the API, in JSON, YAML or by a template, with the
// names of its JSON tags.
func Value(w io.Writer, format Format, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return document(w, format, data)
}

func document(w io.Writer, format Format, data []byte) error {
	switch format.Kind() {
	case JSONPath, GoTemplate, CustomColumns:
		return format.byTemplate(w, data)
	case YAML:
		text, err := yaml.JSONToYAML(data)
		if err != nil {
			return fmt.Errorf("print yaml: %w", err)
		}
		_, err = w.Write(text)
		return err
	default: // JSON
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, data, "", "  "); err != nil {
		return fmt.Errorf("print json: %w", err)
	}
	indented.WriteByte('\n')
	_, err := w.Write(indented.Bytes())
	return err
}

// table prints rows below a header. An empty list prints nothing at all but the
// header, so that it still shows what was asked for.
func (v View[T]) table(w io.Writer, format Format, items []Item[T]) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	if !format.NoHeaders {
		fmt.Fprintln(t, strings.Join(v.headers(format, anyShard(items)), "\t"))
	}
	for _, item := range items {
		fmt.Fprintln(t, strings.Join(v.cells(format, item), "\t"))
	}
	return t.Flush()
}

func (v View[T]) headers(format Format, shard bool) []string {
	var out []string
	if shard {
		out = append(out, "SHARD")
	}
	for _, c := range v.Columns {
		if format.Kind() == Wide || !c.Wide {
			out = append(out, c.Header)
		}
	}
	return out
}

func (v View[T]) cells(format Format, item Item[T]) []string {
	var out []string
	if item.Shard != "" {
		out = append(out, item.Shard)
	}
	for _, c := range v.Columns {
		if format.Kind() == Wide || !c.Wide {
			out = append(out, Cell(c.Value(item.Message)))
		}
	}
	return out
}

// Cell keeps a value in its place: text of a server may hold anything, and an
// empty one would look like a missing column.
func Cell(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	if s == "" {
		return "-"
	}
	return s
}

func anyShard[T any](items []Item[T]) bool {
	return len(items) > 0 && items[0].Shard != ""
}
