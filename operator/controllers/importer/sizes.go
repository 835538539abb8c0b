package importer

import (
	"fmt"
	"strconv"
	"strings"

	"nstance.dev/protos/identity"
)

// MaxSize is the greatest size of a group on one shard.
const MaxSize = 10000

// Size is what one shard has of a group.
type Size struct {
	Shard string
	Size  int
}

// FormatSizes writes sizes as they stand on an imported pool: a=3,b=2.
func FormatSizes(sizes []Size) string {
	entries := make([]string, len(sizes))
	for i, s := range sizes {
		entries[i] = s.Shard + "=" + strconv.Itoa(s.Size)
	}
	return strings.Join(entries, ",")
}

// ParseSizes reads what FormatSizes wrote, and nothing else: each size has one spelling,
// and each shard is named once. The order is kept.
func ParseSizes(text string) ([]Size, error) {
	var sizes []Size
	seen := map[string]bool{}
	for entry := range strings.SplitSeq(text, ",") {
		shard, digits, ok := strings.Cut(entry, "=")
		size, err := strconv.Atoi(digits)
		switch {
		case !ok:
			return nil, fmt.Errorf("sizes of an imported pool: %q is not of the form shard=size", entry)
		case identity.ValidateName(shard) != nil:
			return nil, fmt.Errorf("sizes of an imported pool: %w", identity.ValidateName(shard))
		case seen[shard]:
			return nil, fmt.Errorf("sizes of an imported pool: shard %s is named twice", shard)
		case err != nil || strconv.Itoa(size) != digits || size < 0 || size > MaxSize:
			return nil, fmt.Errorf("sizes of an imported pool: size %q of shard %s is no number from 0 to %d", digits, shard, MaxSize)
		}
		seen[shard] = true
		sizes = append(sizes, Size{shard, size})
	}
	return sizes, nil
}
