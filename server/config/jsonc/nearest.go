package jsonc

// Nearest gives the candidate that name was most likely meant to be, or "" if
// none is near: at most a third of the letters may differ, and at least two may.
func Nearest(name string, candidates []string) string {
	if len(name) > 64 {
		return ""
	}
	best, distance := "", max(2, len(name)/3)+1
	for _, c := range candidates {
		if len(c) > 64 {
			continue
		}
		if d := levenshtein(name, c); d < distance && d < max(len(name), len(c)) {
			best, distance = c, d
		}
	}
	return best
}

// levenshtein counts the insertions, deletions and replacements of bytes that
// make a into b.
func levenshtein(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
