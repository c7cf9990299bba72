/// Repeatable randomness: one seed gives the same values on every machine.
package struct SplitMix64: RandomNumberGenerator, Sendable {
    private var state: UInt64

    package init(seed: UInt64) {
        state = seed
    }

    /// A generator for one of many things that share a seed; neither knows of the others.
    package init(seed: UInt64, _ path: UInt64...) {
        state = path.reduce(seed) { Self.mix($0 &+ 0x9E37_79B9_7F4A_7C15 &* ($1 &+ 1)) }
    }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        return Self.mix(state)
    }

    private static func mix(_ value: UInt64) -> UInt64 {
        var mixed = value
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    /// True in so many of a hundred cases.
    package mutating func chance(_ percent: Int) -> Bool {
        Int.random(in: 0..<100, using: &self) < percent
    }

    /// 0 included, 1 not.
    package mutating func fraction() -> Double {
        Double(next() >> 11) * 0x1p-53
    }
}
