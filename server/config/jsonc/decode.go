package jsonc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tailscale/hujson"
)

// Decode reads data into the value that v points to, and keeps what it holds
// for keys that data lacks. It gives every problem, in order of place; what
// fits is filled in all the same, unless the text could not be parsed, and
// then v is untouched. The document is never nil.
func Decode(file string, data []byte, v any) (*Document, Problems) {
	d := &Document{file: file, lines: []int{0}}
	tree, ok := d.parse(data)
	if !ok {
		return d, d.problems
	}
	d.root = &tree
	d.inspect(&tree, nil)
	d.value(&tree, reflect.ValueOf(v).Elem(), Path{}, "")
	d.problems.Sort()
	d.warnings.Sort()
	return d, d.problems
}

// Standard gives data as plain JSON, or what is wrong with its text:
// its syntax, its depth, its size, and duplicate keys.
func Standard(file string, data []byte) ([]byte, error) {
	d := &Document{file: file}
	tree, ok := d.parse(data)
	if ok {
		d.inspect(&tree, nil)
	}
	if len(d.problems) > 0 {
		return nil, d.problems
	}
	tree.Standardize()
	return tree.Pack(), nil
}

// step is a value on the way to another one: hardly any of them has to be named.
type step struct {
	parent *step // nil for the document
	in     *hujson.Object
	index  int // of the member of that object, or of the element of a list
}

// path names the value.
func (s *step) path() Path {
	switch {
	case s == nil:
		return Path{}
	case s.in != nil:
		return s.parent.path().Key(nameOf(&s.in.Members[s.index]))
	default:
		return s.parent.path().Index(s.index)
	}
}

// inspect finds duplicate keys and NULs, wherever they stand, and makes the index of objects with many members.
func (d *Document) inspect(v *hujson.Value, at *step) {
	switch node := v.Value.(type) {
	case *hujson.Object:
		if len(node.Members) >= manyMembers {
			if d.members == nil {
				d.members = map[*hujson.Object]map[string]int{}
			}
			d.members[node] = firstOf(node)
		}
		below := step{parent: at, in: node}
		for i := range node.Members {
			m := &node.Members[i]
			below.index = i
			if earlier := d.member(node, nameOf(m)); earlier != i {
				d.report(d.at(m.Name.StartOffset, below.path(), "duplicate key",
					fmt.Sprintf("keep one of them; the first is in line %d", d.at(node.Members[earlier].Name.StartOffset, Path{}, "", "").Line)))
				continue
			}
			if holdsNUL(m.Name.Value.(hujson.Literal)) {
				d.report(d.at(m.Name.StartOffset, below.path(), "the key contains a NUL", "take it out"))
			}
			d.inspect(&m.Value, &below)
		}
	case *hujson.Array:
		below := step{parent: at}
		for i := range node.Elements {
			below.index = i
			d.inspect(&node.Elements[i], &below)
		}
	case hujson.Literal:
		if node.Kind() == '"' && holdsNUL(node) {
			d.report(d.at(v.StartOffset, at.path(), "the text contains a NUL", "take it out"))
		}
	}
}

// holdsNUL reports whether the text that a literal stands for has one. As itself it was refused before the text was parsed.
func holdsNUL(lit hujson.Literal) bool {
	return bytes.IndexByte(lit, '\\') >= 0 && strings.ContainsRune(textOf(lit), 0)
}

// value fills into from v. The option is the field's jsonc tag.
func (d *Document) value(v *hujson.Value, into reflect.Value, path Path, option string) {
	if into.Kind() != reflect.Interface && v.Value.Kind() == 'n' {
		remedy := "write a value, or leave the key out"
		if path.parent == nil {
			remedy = "write an object: { … }"
		} else if path.isIdx {
			remedy = "write a value, or take it out of the list"
		}
		d.report(d.at(v.StartOffset, path, "null is not a value", remedy))
		return
	}
	if into.Kind() == reflect.Pointer {
		target := reflect.New(into.Type().Elem())
		d.value(v, target.Elem(), path, option)
		into.Set(target)
		return
	}
	if u, ok := into.Addr().Interface().(json.Unmarshaler); ok && option == "" {
		d.unmarshal(v, u, path)
		return
	}
	switch into.Kind() {
	case reflect.Struct:
		d.object(v, into, path)
	case reflect.Map:
		d.mapping(v, into, path, option)
	case reflect.Slice:
		d.list(v, into, path)
	case reflect.Interface:
		if x := free(v); x != nil {
			into.Set(reflect.ValueOf(x))
		}
	default:
		d.scalar(v, into, path, option)
	}
}

func (d *Document) unmarshal(v *hujson.Value, u json.Unmarshaler, path Path) {
	plain := v.Clone()
	plain.Minimize()
	plain.BeforeExtra, plain.AfterExtra = nil, nil
	err := u.UnmarshalJSON(plain.Pack())
	if err == nil {
		return
	}
	remedy := ""
	if r, ok := u.(interface{ Remedy() string }); ok {
		remedy = r.Remedy()
	}
	d.report(d.at(v.StartOffset, path, ShortenTo(err.Error(), 120), remedy))
}

// Open is implemented by types whose objects may have members that are no fields of the
// struct. What is found of them is put into the field with the tag `jsonc:"others"`, a map.
type Open interface {
	// Others is a struct type with the further members, by which they are read. Its fields
	// are pointers, nil for what is absent.
	Others() reflect.Type
}

func (d *Document) object(v *hujson.Value, into reflect.Value, path Path) {
	obj, ok := v.Value.(*hujson.Object)
	if !ok {
		d.mismatch(v, path, "an object", "write it in braces: { … }")
		return
	}
	fields := fieldsOf(into.Type())
	var others reflect.Value
	if open, ok := into.Addr().Interface().(Open); ok {
		others = reflect.New(open.Others()).Elem()
	}
	for i := range obj.Members {
		m := &obj.Members[i]
		name := nameOf(m)
		if Ignored(name) || d.member(obj, name) != i {
			continue // a duplicate: reported by inspect, and the first one counts
		}
		target := into
		f, ok := fields.byName[name]
		if !ok && others.IsValid() {
			f, ok = fieldsOf(others.Type()).byName[name]
			target = others
		}
		if !ok {
			d.report(d.at(m.Name.StartOffset, path.Key(name), "unknown key", unknownRemedy(name, fields.with(others))))
			continue
		}
		d.value(&m.Value, target.FieldByIndex(f.index), path.Key(name), f.option)
	}
	if others.IsValid() {
		into.FieldByIndex(fields.others).Set(reflect.ValueOf(asRead(others)))
	}
}

// asRead gives a struct as encoding/json would read it again, with numbers as json.Number.
func asRead(v reflect.Value) map[string]any {
	text, err := json.Marshal(v.Interface())
	if err != nil {
		panic("jsonc: what was read cannot be written: " + err.Error())
	}
	made := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&made); err != nil {
		panic("jsonc: what was written cannot be read: " + err.Error())
	}
	return made
}

// Ignored says whether a key is for other readers: $schema and x-….
func Ignored(name string) bool { return name == "$schema" || strings.HasPrefix(name, "x-") }

func unknownRemedy(name string, names []string) string {
	if near := Nearest(name, names); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(names) == 0 {
		return "leave it out: nothing can be set here"
	}
	return "known here: " + strings.Join(names, ", ")
}

func (d *Document) mapping(v *hujson.Value, into reflect.Value, path Path, option string) {
	obj, ok := v.Value.(*hujson.Object)
	if !ok {
		d.mismatch(v, path, "an object", "write it in braces: { … }")
		return
	}
	anyKey := into.Type().Elem().Kind() == reflect.Interface
	m := reflect.MakeMapWithSize(into.Type(), len(obj.Members))
	for i := range obj.Members {
		member := &obj.Members[i]
		name := nameOf(member)
		if Ignored(name) && !anyKey {
			d.warnings = append(d.warnings, d.at(member.Name.StartOffset, path.Key(name),
				"ignored, because its name begins with x- or is $schema", "give it another name if it is to count"))
			continue
		}
		if d.member(obj, name) != i {
			continue // a duplicate: reported by inspect, and the first one counts
		}
		elem := reflect.New(into.Type().Elem()).Elem()
		d.value(&member.Value, elem, path.Key(name), option)
		m.SetMapIndex(reflect.ValueOf(name), elem)
	}
	into.Set(m)
}

func (d *Document) list(v *hujson.Value, into reflect.Value, path Path) {
	arr, ok := v.Value.(*hujson.Array)
	if !ok {
		d.mismatch(v, path, "a list", "write it in brackets: [ … ]")
		return
	}
	s := reflect.MakeSlice(into.Type(), len(arr.Elements), len(arr.Elements))
	for i := range arr.Elements {
		d.value(&arr.Elements[i], s.Index(i), path.Index(i), "")
	}
	into.Set(s)
}

func (d *Document) scalar(v *hujson.Value, into reflect.Value, path Path, option string) {
	lit, _ := v.Value.(hujson.Literal)
	switch kind := v.Value.Kind(); {
	case into.Kind() == reflect.String && kind == '"':
		into.SetString(textOf(lit))
	case into.Kind() == reflect.String && option == "scalars" && lit != nil:
		into.SetString(string(lit))
	case into.Kind() == reflect.String && option == "scalars":
		d.mismatch(v, path, "a string, number or boolean", textRemedy(kind))
	case into.Kind() == reflect.String:
		d.mismatch(v, path, "a string", textRemedy(kind))
	case into.Kind() == reflect.Bool && (kind == 't' || kind == 'f'):
		into.SetBool(lit.Bool())
	case into.Kind() == reflect.Bool:
		d.mismatch(v, path, "a boolean", "write true or false, without quotes")
	case into.CanInt() && kind == '0':
		n, err := strconv.ParseInt(string(lit), 10, 64)
		if err != nil || into.OverflowInt(n) {
			d.report(d.wholeNumber(v, path, string(lit)))
			return
		}
		into.SetInt(n)
	case into.CanInt():
		d.mismatch(v, path, "a whole number", "write digits, without quotes")
	case into.CanFloat() && kind == '0':
		f, err := strconv.ParseFloat(string(lit), 64)
		if err != nil {
			d.report(d.at(v.StartOffset, path, ShortenTo(string(lit), 40)+" is out of range", "write a smaller number"))
			return
		}
		into.SetFloat(f)
	case into.CanFloat():
		d.mismatch(v, path, "a number", "write digits, without quotes")
	default:
		panic("jsonc: no rule for fields of type " + into.Type().String())
	}
}

// textRemedy is what helps where a text belongs.
func textRemedy(found hujson.Kind) string {
	if found == '{' || found == '[' {
		return "write one text in quotes in its place"
	}
	return "write it in quotes"
}

// wholeNumber is the problem of a number that is not written as a whole one of 64 bits.
func (d *Document) wholeNumber(v *hujson.Value, path Path, text string) Problem {
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 && strings.ContainsAny(text, ".eE"):
		return d.at(v.StartOffset, path, ShortenTo(text, 40)+" has a fraction or an exponent", "write "+strconv.FormatFloat(f, 'f', -1, 64))
	case err == nil && f != math.Trunc(f):
		return d.at(v.StartOffset, path, ShortenTo(text, 40)+" is not a whole number", "write one without a fraction")
	default:
		return d.at(v.StartOffset, path, ShortenTo(text, 40)+" is out of range", "write a whole number that is nearer to 0")
	}
}

func (d *Document) mismatch(v *hujson.Value, path Path, want, remedy string) {
	d.report(d.at(v.StartOffset, path, "expected "+want+", found "+describe(v.Value.Kind()), remedy))
}

func describe(k hujson.Kind) string {
	switch k {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}

// free gives the value as encoding/json would, with numbers as json.Number.
func free(v *hujson.Value) any {
	switch node := v.Value.(type) {
	case *hujson.Object:
		m := make(map[string]any, len(node.Members))
		for i := range node.Members {
			name := nameOf(&node.Members[i])
			if _, dup := m[name]; !dup {
				m[name] = free(&node.Members[i].Value)
			}
		}
		return m
	case *hujson.Array:
		s := make([]any, len(node.Elements))
		for i := range node.Elements {
			s[i] = free(&node.Elements[i])
		}
		return s
	}
	lit := v.Value.(hujson.Literal)
	switch lit.Kind() {
	case '"':
		return textOf(lit)
	case 't', 'f':
		return lit.Bool()
	case 'n':
		return nil
	default:
		return json.Number(lit)
	}
}

// fields are those of a struct by their names in JSON, and the names in the order of
// the struct.
type fields struct {
	byName map[string]field
	names  []string

	others []int // the index of the field for the members of an [Open] type
	at     int   // how many names stand before it
}

// field is where a field stands, and its jsonc tag.
type field struct {
	index  []int
	option string
}

// with are the names, those of the further members of an [Open] type among them.
func (f fields) with(others reflect.Value) []string {
	if !others.IsValid() {
		return f.names
	}
	return slices.Insert(slices.Clone(f.names), f.at, fieldsOf(others.Type()).names...)
}

// known are the fields of each type that was decoded into: there are few types.
var known sync.Map

func fieldsOf(t reflect.Type) fields {
	if f, ok := known.Load(t); ok {
		return f.(fields)
	}
	all := fields{byName: map[string]field{}}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && name != "" && name != "-" {
			all.byName[name] = field{f.Index, f.Tag.Get("jsonc")}
			all.names = append(all.names, name)
		}
		if f.Tag.Get("jsonc") == "others" {
			all.others, all.at = f.Index, len(all.names)
		}
	}
	known.Store(t, all)
	return all
}
