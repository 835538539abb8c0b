package jsonc

import (
	"strconv"
	"strings"
)

// Path names a value in a document, such as templates.web.args["a.b"][0]. The
// zero value is the document itself.
type Path struct {
	parent *Path // nil for the document
	key    string
	index  int // counts instead of key where isIdx
	isIdx  bool
}

// Key is the path of a member of the object at p.
func (p Path) Key(name string) Path { return Path{parent: &p, key: name} }

// Index is the path of an element of the array at p.
func (p Path) Index(i int) Path { return Path{parent: &p, index: i, isIdx: true} }

// Parent is the path of the value around p; false for the document itself.
func (p Path) Parent() (Path, bool) {
	if p.parent == nil {
		return Path{}, false
	}
	return *p.parent, true
}

// String gives the path as people write it: names that are not plain words
// stand quoted in brackets.
func (p Path) String() string {
	var b strings.Builder
	p.write(&b)
	return ShortenTo(b.String(), 256)
}

func (p Path) write(b *strings.Builder) {
	if p.parent == nil {
		return
	}
	p.parent.write(b)
	switch {
	case p.isIdx:
		b.WriteString("[" + strconv.Itoa(p.index) + "]")
	case !plain(p.key):
		b.WriteString("[" + strconv.Quote(p.key) + "]")
	default:
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(p.key)
	}
}

func plain(name string) bool {
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '$' {
			return false
		}
	}
	return name != ""
}
