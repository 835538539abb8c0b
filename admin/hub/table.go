package hub

// table is all objects of one kind of a shard, as texts, in their newest known state.
// What a list says and what a stream says come in any order: a row is replaced by a higher
// revision alone, and a list neither removes what was put after it began nor brings back
// what was removed after it began.
type table struct {
	rows map[string]row
	gone map[string]uint64 // when rows were removed, since the list that is under way began
	tick uint64            // grows with every change
	list bool              // one is under way
}

// row is one object.
type row struct {
	revision int64
	text     []byte // JSON
	at       uint64 // tick of the table
}

// put stores an object and reports whether anything is new.
func (t *table) put(key string, revision int64, text []byte) bool {
	old, known := t.rows[key]
	if known && (revision < old.revision || string(old.text) == string(text)) {
		return false
	}
	if t.rows == nil {
		t.rows = map[string]row{}
	}
	t.tick++
	delete(t.gone, key)
	t.rows[key] = row{revision, text, t.tick}
	return true
}

// drop removes an object and reports whether it was there.
func (t *table) drop(key string) bool {
	t.tick++
	if t.list {
		t.gone[key] = t.tick
	}
	_, known := t.rows[key]
	delete(t.rows, key)
	return known
}

// begin says that a list is asked for; what it returns goes to settle with the list.
func (t *table) begin() uint64 {
	t.list, t.gone = true, map[string]uint64{}
	return t.tick
}

// listed is an object in a list.
type listed struct {
	key      string
	revision int64
	text     []byte
}

// settle takes a list over and returns the keys of what has changed.
func (t *table) settle(began uint64, all []listed) (changed []string) {
	there := map[string]bool{}
	for _, l := range all {
		there[l.key] = true
		if t.gone[l.key] <= began && t.put(l.key, l.revision, l.text) {
			changed = append(changed, l.key)
		}
	}
	for key, r := range t.rows {
		if !there[key] && r.at <= began {
			delete(t.rows, key)
			changed = append(changed, key)
		}
	}
	t.list, t.gone = false, nil
	return changed
}
