package vector_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"nstance.dev/server/demand/vector"
)

const gi = 1 << 30

func of(cpu, memory, pods int64) vector.Vector { return vector.Vector{cpu, memory, pods} }

func TestDraw(t *testing.T) {
	unit := of(1000, 2*gi, 1)
	tests := []struct {
		name           string
		r, v           vector.Vector
		drawn          bool
		wantR, wantRem vector.Vector
	}{
		{
			"the scarce resource decides about the others",
			of(4000, 16*gi, 110), of(10000, 20*gi, 10), true, of(0, 8*gi, 106), of(6000, 12*gi, 6),
		},
		{
			"less than a unit is left",
			of(500, 8*gi, 100), of(6000, 12*gi, 6), false, of(500, 8*gi, 100), of(6000, 12*gi, 6),
		},
		{
			"a remainder that is smaller than a unit fits whole",
			of(500, 8*gi, 100), of(400, gi, 1), true, of(100, 7*gi, 99), of(0, 0, 0),
		},
		{"nothing is wanted", of(500, 8*gi, 100), of(0, 0, 0), false, of(500, 8*gi, 100), of(0, 0, 0)},
		{
			"products beyond 64 bits",
			of(math.MaxInt64/2, math.MaxInt64/2, 1<<40), of(math.MaxInt64, math.MaxInt64, 1<<41), true,
			of(0, 0, 1), of(math.MaxInt64/2+1, math.MaxInt64/2+1, 1<<40+1),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, v := tt.r, tt.v
			drawn := vector.Draw(r[:], &v, &unit, v.Positive())
			if drawn != tt.drawn || v != tt.wantRem && tt.name != "products beyond 64 bits" || r != tt.wantR && tt.name != "products beyond 64 bits" {
				t.Errorf("drew %t: machine %v, want %v; need %v, want %v", drawn, r, tt.wantR, v, tt.wantRem)
			}
			for d := range r {
				if r[d] < 0 || v[d] < 0 || tt.r[d]-r[d] != tt.v[d]-v[d] {
					t.Errorf("resource %d: machine %d to %d, need %d to %d", d, tt.r[d], r[d], tt.v[d], v[d])
				}
			}
		})
	}
}

// E2: what is drawn and what is left add up, and no amount goes below zero.
func TestE2_DrawConserves(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200000 {
		var r, v, u vector.Vector
		for d := range 5 {
			scale := int64(1) << rng.IntN(62)
			r[d], v[d] = rng.Int64N(scale), rng.Int64N(scale)
			u[d] = rng.Int64N(v[d] + 1)
		}
		r0, v0 := r, v
		drawn := vector.Draw(r[:], &v, &u, v.Positive())
		if !drawn && (r != r0 || v != v0) {
			t.Fatalf("%v %v %v: nothing drawn, and something changed", r0, v0, u)
		}
		if drawn && v == v0 {
			t.Fatalf("%v %v %v: drawn, and nothing changed", r0, v0, u)
		}
		for d := range r {
			if r[d] < 0 || v[d] < 0 || r0[d]-r[d] != v0[d]-v[d] {
				t.Fatalf("%v %v %v: resource %d is not conserved", r0, v0, u, d)
			}
		}
	}
}

func TestArithmeticSaturates(t *testing.T) {
	v := of(math.MaxInt64-1, 1, 0)
	o := of(5, 3, 0)
	v.Add(&o)
	if v != of(math.MaxInt64, 4, 0) {
		t.Errorf("sum %v", v)
	}
	v = of(1, 1, 1)
	v.Sub(&o)
	if v != of(0, 0, 1) {
		t.Errorf("difference %v", v)
	}
	v = of(1, 0, 0)
	o = of(math.MaxInt64/2, 3, 0)
	v.AddTimes(&o, 3)
	if v != of(math.MaxInt64, 9, 0) {
		t.Errorf("product %v", v)
	}
}

func TestPartsAddUp(t *testing.T) {
	v := of(10, 2, 0)
	var sum vector.Vector
	for i := range 3 {
		p := v.Part(i, 3)
		sum.Add(&p)
	}
	if first := v.Part(0, 3); sum != v || first != of(4, 1, 0) {
		t.Errorf("parts add up to %v, the first is %v", sum, first)
	}
}

func TestCount(t *testing.T) {
	a, v := of(2000, 8*gi, 0), of(5000, 8*gi, 0)
	if got := vector.Count(&a, &v); got != 3 {
		t.Errorf("it takes %d", got)
	}
	v[vector.Pods] = 1
	if got := vector.Count(&a, &v); got != math.MaxInt64 {
		t.Errorf("it takes %d of what has no room for Pods", got)
	}
}

func TestShrink(t *testing.T) {
	v, most := of(8000, 8*gi, 8), of(5000, 17*gi, 110)
	v.Shrink(&most)
	if v != of(5000, 5*gi, 5) {
		t.Errorf("shrunk to %v", v)
	}
	v.Shrink(&most)
	if v != of(5000, 5*gi, 5) {
		t.Errorf("shrunk again to %v", v)
	}
}

func TestShare(t *testing.T) {
	a, v := of(2000, 8*gi, 0), of(20000, 40*gi, 0)
	if got := vector.Share(&a, &v, v.Positive()); got != vector.Whole/10 {
		t.Errorf("share %d, want a tenth", got)
	}
	if got := vector.Share(&v, &a, a.Positive()); got != vector.Whole {
		t.Errorf("share %d, want the whole", got)
	}
	nothing := of(0, 0, 0)
	if got := vector.Share(&nothing, &v, v.Positive()); got != 1 {
		t.Errorf("share %d, want the least", got)
	}
	if got := vector.Coverage(&a, &v, v.Positive()); got != (1<<20)/10+(1<<20)/5 {
		t.Errorf("coverage %d", got)
	}
}

func TestSpace(t *testing.T) {
	s := vector.NewSpace()
	v, complete := s.Vector([]vector.Amount{{Name: "gpu", Amount: 2}, {Name: "cpu", Amount: 5}, {Name: "cpu", Amount: 1}, {Name: "pods", Amount: -1}})
	if !complete || v[vector.CPU] != 6 || v[4] != 2 || v[vector.Pods] != 0 {
		t.Errorf("got %v, complete %t", v, complete)
	}
	for i := range vector.Width {
		s.Intern(string(rune('a' + i)))
	}
	if _, complete := s.Vector([]vector.Amount{{Name: "one too many", Amount: 1}}); complete {
		t.Error("a name beyond the width is complete")
	}
	if got := s.Amounts(&v); len(got) != 2 || got[1].Name != "gpu" {
		t.Errorf("amounts %v", got)
	}
}

func TestUnknown(t *testing.T) {
	var s vector.Space
	s.Intern("cpu")
	got := s.Unknown([]vector.Amount{{"cpu", 1}, {"gpu", 2}, {"fpga", 0}})
	if want := []vector.Amount{{"gpu", 2}}; !slices.Equal(got, want) {
		t.Errorf("Unknown() = %v, want %v", got, want)
	}
}

func TestSum(t *testing.T) {
	got := vector.Sum([]vector.Amount{{"cpu", 1}, {"gpu", 2}, {"cpu", 3}, {"gpu", math.MaxInt64}})
	if want := []vector.Amount{{"cpu", 4}, {"gpu", math.MaxInt64}}; !slices.Equal(got, want) || vector.Sum(nil) != nil {
		t.Errorf("Sum() = %v, want %v", got, want)
	}
}
