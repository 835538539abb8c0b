package vector_test

import (
	"math"
	"testing"

	"nstance.dev/server/demand/vector"
)

func TestMultiple(t *testing.T) {
	tests := []struct {
		name string
		v, u vector.Vector
		want int64
	}{
		{"Pods that are all alike", of(10_000, 20*gi, 10), of(1000, 2*gi, 1), 10},
		{"one Pod", of(250, gi, 1), of(250, gi, 1), 1},
		{"one of them asks for a thousandth more", of(10_001, 20*gi, 10), of(1000, 2*gi, 1), 0},
		{"whole numbers, and not the same", of(10_000, 20*gi, 10), of(1000, 4*gi, 1), 0},
		{"a resource of which the unit has nothing", of(10_000, gi, 10), of(1000, 0, 1), 0},
		{"less than a unit", of(500, 0, 0), of(1000, 0, 0), 0},
		{"nothing", of(0, 0, 0), of(0, 0, 0), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := vector.Multiple(&tt.v, &tt.u, tt.v.Positive()); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestDrawUnits(t *testing.T) {
	unit := of(250, gi, 1)
	tests := []struct {
		name           string
		r, v           vector.Vector
		units          int64 // that fit into r
		drawn          bool
		wantR, wantRem vector.Vector
	}{
		{"a machine of 7.72 units holds 7", of(1930, 32*gi, 110), of(2500, 10*gi, 10), 7, true, of(180, 25*gi, 103), of(750, 3*gi, 3)},
		{"memory is what is scarce", of(8000, 3*gi-1, 110), of(2500, 10*gi, 10), 2, true, of(7500, gi-1, 108), of(2000, 8*gi, 8)},
		{"2.9 units are left of it", of(725, 32*gi, 110), of(2500, 10*gi, 10), 2, true, of(225, 30*gi, 108), of(2000, 8*gi, 8)},
		{"no Pod may be added", of(8000, 32*gi, 0), of(2500, 10*gi, 10), 0, false, of(8000, 32*gi, 0), of(2500, 10*gi, 10)},
		{"less than a unit is left", of(249, 32*gi, 110), of(250, gi, 1), 0, false, of(249, 32*gi, 110), of(250, gi, 1)},
		{"all of it fits", of(8000, 32*gi, 110), of(500, 2*gi, 2), 32, true, of(7500, 30*gi, 108), of(0, 0, 0)},
		{"exactly all of it fits", of(500, 2*gi, 2), of(500, 2*gi, 2), 2, true, of(0, 0, 0), of(0, 0, 0)},
		{"nothing is wanted", of(500, 2*gi, 2), of(0, 0, 0), 2, false, of(500, 2*gi, 2), of(0, 0, 0)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := vector.Units(tt.r[:], &unit, unit.Positive()); got != tt.units {
				t.Errorf("%d units fit, want %d", got, tt.units)
			}
			r, v := tt.r, tt.v
			if drawn := vector.DrawUnits(r[:], &v, &unit, unit.Positive()); drawn != tt.drawn || r != tt.wantR || v != tt.wantRem {
				t.Errorf("drawn %v, left %v, still wanted %v; want %v, %v, %v", drawn, r[:3], v[:3], tt.drawn, tt.wantR[:3], tt.wantRem[:3])
			}
		})
	}
}

func TestRatio(t *testing.T) {
	tests := []struct{ have, want, ratio int64 }{
		{7, 14, vector.Whole / 2},
		{7, 7, vector.Whole},
		{8, 7, vector.Whole},
		{0, 0, vector.Whole},
		{1, math.MaxInt64, 1},
		{math.MaxInt64 - 1, math.MaxInt64, vector.Whole - 1},
	}
	for _, tt := range tests {
		if got := vector.Ratio(tt.have, tt.want); got != tt.ratio {
			t.Errorf("%d of %d is %d, want %d", tt.have, tt.want, got, tt.ratio)
		}
	}
}
