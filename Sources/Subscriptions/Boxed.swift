/// An immutable value that is held by reference. A copy costs one retain, whereas copying a fact with forty strings costs
/// forty.
package struct Boxed<Value: Sendable>: Sendable {
    private final class Box: Sendable {
        let value: Value

        init(_ value: consuming Value) {
            self.value = value
        }
    }

    private let box: Box

    package init(_ value: consuming Value) {
        box = Box(value)
    }

    package var value: Value {
        _read { yield box.value }
    }
}

extension Boxed: Equatable where Value: Equatable {
    package static func == (left: Boxed, right: Boxed) -> Bool {
        left.box === right.box || left.box.value == right.box.value
    }
}

extension Boxed: Hashable where Value: Hashable {
    package func hash(into hasher: inout Hasher) {
        hasher.combine(box.value)
    }
}
