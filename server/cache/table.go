package cache

import (
	"cmp"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// A table is one kind of row: the rows in memory, how they look in the file and,
// for the writer, the keys of those that differ from it. Its owner's lock guards it.
type table[K comparable, V any] struct {
	form[K, V]
	differences[K]
	rows map[K]V
}

// form is how the rows of a table look in the file. It never changes.
type form[K comparable, V any] struct {
	schema
	compare func(a, b K) int // as the file orders its rows
	bind    func(K, V) []any // the row's values, in the order of the columns
	bindKey func(K) []any
}

// schema says how a table looks in the file.
type schema struct {
	name    string
	columns []string // "name TYPE" and, where it applies, NOT NULL; those of the primary key come first
	keys    int      // how many columns the primary key has
	indexes []index
}

// index is a further index of a table.
type index struct {
	name    string // after idx_TABLE_
	columns string
}

// newTable makes a table whose key is one column.
func newTable[K cmp.Ordered, V any](s schema, bindKey func(K) []any, bind func(K, V) []any) *table[K, V] {
	return newTableBy(cmp.Compare[K], s, bindKey, bind)
}

func newTableBy[K comparable, V any](compare func(a, b K) int, s schema, bindKey func(K) []any, bind func(K, V) []any) *table[K, V] {
	f := form[K, V]{schema: s, compare: compare, bind: bind, bindKey: bindKey}
	return &table[K, V]{form: f, rows: make(map[K]V)}
}

// put sets a row, and reports whether it is news for the writer.
func (t *table[K, V]) put(k K, v V) (news bool) {
	t.rows[k] = v
	return t.mark(k)
}

// drop removes a row, and reports whether it is news for the writer.
func (t *table[K, V]) drop(k K) (news bool) {
	if _, ok := t.rows[k]; !ok {
		return false
	}
	delete(t.rows, k)
	return t.mark(k)
}

// forget removes all rows.
func (t *table[K, V]) forget() {
	for k := range t.rows {
		t.drop(k)
	}
}

// turnOn makes all rows differ, as they do from an empty file.
func (t *table[K, V]) turnOn() {
	t.off = false
	for k := range t.rows {
		t.mark(k)
	}
}

// take returns what differs, as a batch that can be written without the lock,
// and nil if nothing does.
func (t *table[K, V]) take() batch {
	return t.batch(t.taken(), func(k K) (V, bool) {
		v, ok := t.rows[k]
		return v, ok
	})
}

// differences are the keys of the rows that differ from the file.
type differences[K comparable] struct {
	dirty map[K]struct{}
	off   bool // there is no file to differ from
}

// mark notes that a row differs, and reports whether that is news for the writer.
func (d *differences[K]) mark(k K) (news bool) {
	if d.off {
		return false
	}
	if d.dirty == nil {
		d.dirty = make(map[K]struct{})
	}
	before := len(d.dirty)
	d.dirty[k] = struct{}{}
	return len(d.dirty) > before
}

// turnOff forgets what differs: until turnOn nothing is collected.
func (d *differences[K]) turnOff() { d.off, d.dirty = true, nil }

// taken returns what differs and forgets it.
func (d *differences[K]) taken() map[K]struct{} {
	dirty := d.dirty
	d.dirty = nil
	return dirty
}

// change is a row that differs: with its value, or gone.
type change[K comparable, V any] struct {
	key  K
	row  V
	gone bool
}

// batch makes one of the rows that differ; nil if none does. They stand in the order
// of the file, in which many are written sooner than from all over it.
func (f *form[K, V]) batch(dirty map[K]struct{}, row func(K) (V, bool)) batch {
	if len(dirty) == 0 {
		return nil
	}
	changes := make([]change[K, V], 0, len(dirty))
	for k := range dirty {
		v, ok := row(k)
		changes = append(changes, change[K, V]{k, v, !ok})
	}
	slices.SortFunc(changes, func(a, b change[K, V]) int { return f.compare(a.key, b.key) })
	return &tableBatch[K, V]{f, changes}
}

// mirrored is what the writer sees of a table, whatever its rows are.
type mirrored interface {
	take() batch
	turnOff()
	turnOn()
	ddl() []string
}

// A batch is the changes of one table.
type batch interface {
	write(tx *sql.Tx) error
}

type tableBatch[K comparable, V any] struct {
	form    *form[K, V]
	changes []change[K, V]
}

func (b *tableBatch[K, V]) write(tx *sql.Tx) error {
	put, err := tx.Prepare(b.form.putSQL())
	if err != nil {
		return fmt.Errorf("table %s: %w", b.form.name, err)
	}
	defer put.Close()
	drop, err := tx.Prepare(b.form.dropSQL())
	if err != nil {
		return fmt.Errorf("table %s: %w", b.form.name, err)
	}
	defer drop.Close()
	for _, c := range b.changes {
		if c.gone {
			_, err = drop.Exec(b.form.bindKey(c.key)...)
		} else {
			_, err = put.Exec(b.form.bind(c.key, c.row)...)
		}
		if err != nil {
			return fmt.Errorf("table %s: %w", b.form.name, err)
		}
	}
	return nil
}

// names returns the columns without their types.
func (s schema) names() []string {
	names := slices.Clone(s.columns)
	for i, c := range names {
		names[i], _, _ = strings.Cut(c, " ")
	}
	return names
}

// ddl returns the statements that make the table.
func (s schema) ddl() []string {
	statements := []string{fmt.Sprintf("CREATE TABLE %s (%s, PRIMARY KEY (%s)) WITHOUT ROWID",
		s.name, strings.Join(s.columns, ", "), strings.Join(s.names()[:s.keys], ", "))}
	for _, x := range s.indexes {
		statements = append(statements, fmt.Sprintf("CREATE INDEX idx_%s_%s ON %s (%s)", s.name, x.name, s.name, x.columns))
	}
	return statements
}

func (s schema) putSQL() string {
	return fmt.Sprintf("INSERT OR REPLACE INTO %s (%s) VALUES (?%s)",
		s.name, strings.Join(s.names(), ", "), strings.Repeat(", ?", len(s.columns)-1))
}

func (s schema) dropSQL() string {
	return fmt.Sprintf("DELETE FROM %s WHERE (%s) = (?%s)",
		s.name, strings.Join(s.names()[:s.keys], ", "), strings.Repeat(", ?", s.keys-1))
}
