// Package linediff shows where two texts differ, line by line, as diff -u does.
package linediff

import "strings"

// around is how many equal lines are shown beside those that differ.
const around = 2

// Of compares two texts line by line. Each line of the result begins with a blank, + or
// -; equal lines far from any difference are left out. Equal texts give nothing.
func Of(from, to string) []string {
	if from == to {
		return nil
	}
	a, b := split(from), split(to)
	long := make([][]int, len(a)+1) // the longest common subsequence of what follows
	for i := range long {
		long[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				long[i][j] = long[i+1][j+1] + 1
			} else {
				long[i][j] = max(long[i+1][j], long[i][j+1])
			}
		}
	}
	var all []string
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			all, i, j = append(all, " "+a[i]), i+1, j+1
		case j == len(b) || i < len(a) && long[i+1][j] >= long[i][j+1]:
			all, i = append(all, "-"+a[i]), i+1
		default:
			all, j = append(all, "+"+b[j]), j+1
		}
	}
	return trimmed(all)
}

func split(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// trimmed leaves out equal lines that are far from those that differ; a line of three dots stands for them.
func trimmed(all []string) []string {
	near := make([]bool, len(all))
	for i, line := range all {
		if line[0] != ' ' {
			for j := max(0, i-around); j <= min(len(all)-1, i+around); j++ {
				near[j] = true
			}
		}
	}
	var out []string
	for i, line := range all {
		switch {
		case near[i]:
			out = append(out, line)
		case i > 0 && near[i-1]:
			out = append(out, "...")
		}
	}
	return out
}
