package jsonc

import (
	"bytes"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

// What a document may be at most. A larger or deeper one is refused before it
// is parsed.
const (
	MaxBytes    = 8 << 20
	MaxDepth    = 64
	maxProblems = 1000
)

// Document knows where the values of a parsed text stand.
type Document struct {
	file     string
	lines    []int // offset of the start of each line
	size     int
	root     *hujson.Value
	members  map[*hujson.Object]map[string]int // the first member of each name, of objects with many
	problems Problems
	warnings Problems
}

// Problem makes a problem with the place of the value at path, or, where there
// is no such value, with that of the nearest value around it.
func (d *Document) Problem(path Path, message, remedy string) Problem {
	_, value := d.find(path)
	return d.at(value, path, message, remedy)
}

// KeyProblem makes a problem with the place of the key at path.
func (d *Document) KeyProblem(path Path, message, remedy string) Problem {
	key, _ := d.find(path)
	return d.at(key, path, message, remedy)
}

// Has says whether the document has a value at path.
func (d *Document) Has(path Path) bool {
	_, _, exact := d.walk(path)
	return exact
}

// find gives the offsets of the key and the value at path, or twice that of the
// nearest value around it.
func (d *Document) find(path Path) (key, value int) {
	key, v, _ := d.walk(path)
	if v == nil {
		return 0, 0
	}
	return key, v.StartOffset
}

// walk follows path as far as the document goes; exact says that it went all
// the way.
func (d *Document) walk(path Path) (key int, v *hujson.Value, exact bool) {
	if path.parent == nil {
		if d.root == nil {
			return 0, nil, false
		}
		return d.root.StartOffset, d.root, true
	}
	key, v, exact = d.walk(*path.parent)
	if !exact {
		return key, v, false
	}
	switch node := v.Value.(type) {
	case *hujson.Object:
		if i := d.member(node, path.key); i >= 0 && !path.isIdx {
			m := &node.Members[i]
			return m.Name.StartOffset, &m.Value, true
		}
	case *hujson.Array:
		if path.isIdx && path.index < len(node.Elements) {
			e := &node.Elements[path.index]
			return e.StartOffset, e, true
		}
	}
	return v.StartOffset, v, false
}

// manyMembers is from how many members on an object has an index of them.
const manyMembers = 9

// member is the index of the first member with the name, or -1.
func (d *Document) member(obj *hujson.Object, name string) int {
	if index, ok := d.members[obj]; ok {
		if i, ok := index[name]; ok {
			return i
		}
		return -1
	}
	for i := range obj.Members {
		if isNamed(&obj.Members[i], name) {
			return i
		}
	}
	return -1
}

// firstOf gives the first member of each name.
func firstOf(obj *hujson.Object) map[string]int {
	first := make(map[string]int, len(obj.Members))
	for i := range obj.Members {
		name := nameOf(&obj.Members[i])
		if _, dup := first[name]; !dup {
			first[name] = i
		}
	}
	return first
}

// isNamed reports whether a member has the name.
func isNamed(m *hujson.ObjectMember, name string) bool {
	lit := m.Name.Value.(hujson.Literal)
	if bytes.IndexByte(lit, '\\') < 0 {
		return string(lit[1:len(lit)-1]) == name
	}
	return lit.String() == name
}

func nameOf(m *hujson.ObjectMember) string { return textOf(m.Name.Value.(hujson.Literal)) }

// textOf is the text that a literal stands for, without a decoder where it stands there
// as it is: most do, and a document has hundreds of thousands.
func textOf(lit hujson.Literal) string {
	if len(lit) >= 2 && lit[0] == '"' && bytes.IndexByte(lit, '\\') < 0 {
		return string(lit[1 : len(lit)-1])
	}
	return lit.String()
}

// Empty says that the text could not be parsed at all.
func (d *Document) Empty() bool { return d.root == nil }

// Warnings are what Decode found likely to be a mistake but not wrong.
func (d *Document) Warnings() Problems { return d.warnings }

func (d *Document) at(offset int, path Path, message, remedy string) Problem {
	line := sort.SearchInts(d.lines, offset+1) - 1
	return Problem{
		File: d.file, Line: line + 1, Column: offset - d.lines[line] + 1,
		Path: path.String(), Message: printable(message), Remedy: printable(remedy),
	}
}

func (d *Document) report(p Problem) {
	switch {
	case len(d.problems) < maxProblems:
		d.problems = append(d.problems, p)
	case len(d.problems) == maxProblems:
		d.problems = append(d.problems, Problem{File: d.file, Line: p.Line, Column: p.Column,
			Message: "more problems than are worth listing", Remedy: "correct those above first"})
	}
}

// parse makes the syntax tree, after the checks that keep the parser and its
// callers from harm.
func (d *Document) parse(data []byte) (hujson.Value, bool) {
	d.lines, d.size = []int{0}, len(data)
	if len(data) > MaxBytes {
		d.report(d.at(0, Path{}, fmt.Sprintf("the document has %d bytes", len(data)),
			fmt.Sprintf("keep it under %d MiB", MaxBytes>>20)))
		return hujson.Value{}, false
	}
	for i := 0; ; {
		n := bytes.IndexByte(data[i:], '\n')
		if n < 0 {
			break
		}
		i += n + 1
		d.lines = append(d.lines, i)
	}
	if offset, message, remedy := unsafeText(data); offset >= 0 {
		d.report(d.at(offset, Path{}, message, remedy))
		return hujson.Value{}, false
	}
	if len(bytes.TrimSpace(bytes.TrimPrefix(data, []byte(byteOrderMark)))) == 0 {
		d.report(d.at(0, Path{}, "the document is empty", "write an object: { … }"))
		return hujson.Value{}, false
	}
	if i := bytes.IndexByte(data, '\r'); i >= 0 && bytes.IndexByte(data, '\n') < 0 {
		d.report(d.at(i, Path{}, "lines end with a carriage return alone", "save the document with line feeds at the ends of lines"))
		return hujson.Value{}, false
	}
	// A byte order mark means nothing here, and a comment may end the text
	// without a line break: the parser accepts neither.
	text := append(bytes.Clone(data), '\n')
	if bytes.HasPrefix(text, []byte(byteOrderMark)) {
		copy(text, "   ")
	}
	tree, err := hujson.Parse(text)
	if err != nil {
		d.report(d.syntaxProblem(err))
		return hujson.Value{}, false
	}
	return tree, true
}

const byteOrderMark = "\xef\xbb\xbf"

func (d *Document) syntaxProblem(err error) Problem {
	p := Problem{File: d.file, Line: 1, Column: 1, Remedy: "correct the syntax: JSON, with // and /* */ comments and trailing commas"}
	var line, column int
	if _, scanErr := fmt.Sscanf(err.Error(), "hujson: line %d, column %d:", &line, &column); scanErr == nil {
		p.Line, p.Column = line, column
		if line > len(d.lines) { // the line break that parse added
			p.Line, p.Column = len(d.lines), d.size-d.lines[len(d.lines)-1]+1
		}
	}
	if inner := errors.Unwrap(err); inner != nil {
		err = inner
	}
	p.Message = printable(ShortenTo(err.Error(), 120))
	return p
}

// printable gives a text on one line and without characters that a terminal would obey:
// they stand escaped, as in Go.
func printable(s string) string {
	if !strings.ContainsFunc(s, obeyed) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if obeyed(r) {
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// obeyed reports whether a character does something instead of showing, or shows as
// something else, such as an escape or a change of direction.
func obeyed(r rune) bool { return r != ' ' && !unicode.IsPrint(r) }

// unsafeText finds what must not reach the parser, which recurses, or any later
// user of a string. The offset is -1 if all is well.
func unsafeText(data []byte) (offset int, message, remedy string) {
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return i, "NUL byte", "save the document as UTF-8 text"
	}
	if !utf8.Valid(data) {
		return firstInvalid(data), "not UTF-8", "save the document as UTF-8 text"
	}
	if i := tooDeep(data); i >= 0 {
		return i, fmt.Sprintf("nested deeper than %d levels", MaxDepth), "make the document flatter"
	}
	return -1, "", ""
}

// firstInvalid gives the offset of the first byte that is not UTF-8; there is one.
func firstInvalid(data []byte) (offset int) {
	for {
		r, n := utf8.DecodeRune(data[offset:])
		if r == utf8.RuneError && n <= 1 {
			return offset
		}
		offset += n
	}
}

// tooDeep gives the offset of the bracket that is one too many, or -1.
func tooDeep(data []byte) int {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			if depth++; depth > MaxDepth {
				return i
			}
		case '}', ']':
			depth--
		case '"':
			i = skipString(data, i)
		case '/':
			i = skipComment(data, i)
		}
	}
	return -1
}

// skipString gives the offset of the quote that ends the string at i.
func skipString(data []byte, i int) int {
	for i++; i < len(data) && data[i] != '"'; i++ {
		if data[i] == '\\' {
			i++
		}
	}
	return i
}

// skipComment gives the offset of the last byte of the comment at i, or i.
func skipComment(data []byte, i int) int {
	for _, c := range []struct{ start, end string }{{"//", "\n"}, {"/*", "*/"}} {
		if !bytes.HasPrefix(data[i:], []byte(c.start)) {
			continue
		}
		n := bytes.Index(data[i+2:], []byte(c.end))
		if n < 0 {
			return len(data)
		}
		return i + 2 + n + len(c.end) - 1
	}
	return i
}
