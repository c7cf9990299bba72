/// A repeatable random number generator: one seed gives the same values on every machine.
package struct SplitMix64: RandomNumberGenerator, Sendable {
    private var state: UInt64

    package init(seed: UInt64) {
        state = seed
    }

    /// One of many independent generators that share a seed, selected by a path of numbers.
    package init(seed: UInt64, _ path: UInt64...) {
        self.init(seed: seed, path)
    }

    package init(seed: UInt64, _ path: [UInt64]) {
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

    /// True with the given probability, in percent.
    package mutating func chance(_ percent: Int) -> Bool {
        Int.random(in: 0..<100, using: &self) < percent
    }

    /// A value from 0 up to but not including 1.
    package mutating func fraction() -> Double {
        Double(next() >> 11) * 0x1p-53
    }
}
