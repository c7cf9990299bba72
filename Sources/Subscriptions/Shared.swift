/// An immutable value behind a reference. A copy costs one retain, whereas copying a fact with forty strings costs
/// forty.
package struct Shared<Value: Sendable>: Sendable {
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

extension Shared: Equatable where Value: Equatable {
    package static func == (left: Shared, right: Shared) -> Bool {
        left.box === right.box || left.box.value == right.box.value
    }
}

extension Shared: Hashable where Value: Hashable {
    package func hash(into hasher: inout Hasher) {
        hasher.combine(box.value)
    }
}
