#if !canImport(SwiftUI)
    // The declarations of SwiftUI that the example of a screen uses, as Apple documents them, so that the example is
    // type-checked where SwiftUI does not exist. Nothing here shows anything.

    protocol ObservableObject: AnyObject {}

    @propertyWrapper
    struct Published<Value> {
        var wrappedValue: Value
    }

    @MainActor @propertyWrapper
    struct StateObject<Object: ObservableObject> {
        let wrappedValue: Object

        init(wrappedValue: @autoclosure () -> Object) {
            self.wrappedValue = wrappedValue()
        }
    }

    enum ScenePhase: Equatable {
        case background, inactive, active
    }

    struct EnvironmentValues {
        var scenePhase = ScenePhase.active
    }

    @propertyWrapper
    struct Environment<Value> {
        let wrappedValue: Value

        init(_ path: KeyPath<EnvironmentValues, Value>) {
            wrappedValue = EnvironmentValues()[keyPath: path]
        }
    }

    @MainActor
    protocol View {
        associatedtype Body
        @ViewBuilder var body: Body { get }
    }

    /// What a builder makes of any views.
    struct Contents: View {
        let body: Void = ()
    }

    @resultBuilder
    enum ViewBuilder {
        static func buildExpression(_ view: some View) -> Contents { Contents() }
        static func buildBlock(_ views: Contents...) -> Contents { Contents() }
        static func buildOptional(_ view: Contents?) -> Contents { Contents() }
        static func buildEither(first: Contents) -> Contents { first }
        static func buildEither(second: Contents) -> Contents { second }
    }

    struct List: View {
        let body: Void = ()

        init(@ViewBuilder content: () -> Contents) {}
    }

    struct ForEach<Element: Identifiable>: View {
        let body: Void = ()

        init(_ data: [Element], @ViewBuilder content: (Element) -> Contents) {}
    }

    struct Button: View {
        let body: Void = ()

        init(_ title: String, action: @escaping @MainActor () -> Void) {}
    }

    struct Label: View {
        let body: Void = ()

        init(_ title: String, systemImage: String) {}
    }

    struct Text: View {
        let body: Void = ()

        init(_ content: String) {}
    }

    extension View {
        func disabled(_ disabled: Bool) -> some View { self }
        func task(_ action: @escaping @Sendable @MainActor () async -> Void) -> some View { self }
        func onChange<Value: Equatable>(of value: Value, perform action: (Value) -> Void) -> some View { self }
    }
#endif
